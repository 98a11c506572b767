// softmax and log_softmax over the last dimension. T is the input's type, U the output's. A warp or a block a row.

typedef math_t<U> A;

struct Statistics { A max, sum; };

__device__ __forceinline__ Statistics statistics(const Row &row, u64 begin, u64 columns, const In<T> &x) {
  A most = Max::zero<A>(), sum = A(0);
  for (u64 j = row.lane; j < columns; j += row.width) most = max_(most, A(widen(x.at(begin + j))));
  most = row.reduce<Max>(most);
  for (u64 j = row.lane; j < columns; j += row.width) sum += exp_(A(widen(x.at(begin + j))) - most);
  return Statistics{most, row.reduce<Sum>(sum)};
}

KERNEL softmax_forward(u64 rows, u64 columns, u32 wide, U *out, VIEW input) {
  Row row(wide);
  if (row.index >= rows) return;
  u64 begin = row.index * columns;
  In<T> x(input);
  Statistics s = statistics(row, begin, columns, x);
  for (u64 j = row.lane; j < columns; j += row.width) out[begin + j] = narrow<U>(exp_(A(widen(x.at(begin + j))) - s.max) / s.sum);
}

KERNEL softmax_backward(u64 rows, u64 columns, u32 wide, T *out, VIEW grad, const U *y) {
  Row row(wide);
  if (row.index >= rows) return;
  u64 begin = row.index * columns;
  In<U> g(grad);
  A sum = A(0);
  for (u64 j = row.lane; j < columns; j += row.width) sum += widen(g.at(begin + j)) * widen(y[begin + j]);
  sum = row.reduce<Sum>(sum);
  for (u64 j = row.lane; j < columns; j += row.width) out[begin + j] = narrow<T>((widen(g.at(begin + j)) - sum) * widen(y[begin + j]));
}

KERNEL log_softmax_forward(u64 rows, u64 columns, u32 wide, U *out, VIEW input) {
  Row row(wide);
  if (row.index >= rows) return;
  u64 begin = row.index * columns;
  In<T> x(input);
  Statistics s = statistics(row, begin, columns, x);
  A log_sum = log_(s.sum);
  for (u64 j = row.lane; j < columns; j += row.width) out[begin + j] = narrow<U>(A(widen(x.at(begin + j))) - s.max - log_sum);
}

KERNEL log_softmax_backward(u64 rows, u64 columns, u32 wide, T *out, VIEW grad, const U *y) {
  Row row(wide);
  if (row.index >= rows) return;
  u64 begin = row.index * columns;
  In<U> g(grad);
  A sum = A(0);
  for (u64 j = row.lane; j < columns; j += row.width) sum += widen(g.at(begin + j));
  sum = row.reduce<Sum>(sum);
  for (u64 j = row.lane; j < columns; j += row.width) out[begin + j] = narrow<T>(widen(g.at(begin + j)) - exp_(A(widen(y[begin + j]))) * sum);
}
