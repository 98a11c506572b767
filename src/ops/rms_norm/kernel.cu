// rms_norm over the last dimension. The statistic is in the arithmetic's type. A warp or a block a row.

typedef math_t<T> A;

KERNEL rms_norm_forward(u64 rows, u64 columns, u32 wide, double eps, T *out, A *rstd, VIEW input, const T *weight) {
  Row row(wide);
  if (row.index >= rows) return;
  u64 begin = row.index * columns;
  In<T> x(input);
  A squares = A(0);
  for (u64 j = row.lane; j < columns; j += row.width) squares += widen(x.at(begin + j)) * widen(x.at(begin + j));
  A r = rsqrt_(row.reduce<Sum>(squares) / A(columns) + A(eps));
  for (u64 j = row.lane; j < columns; j += row.width) out[begin + j] = narrow<T>(widen(x.at(begin + j)) * r * widen(weight[j]));
  if (row.lane == 0) rstd[row.index] = r;
}

KERNEL rms_norm_backward(u64 rows, u64 columns, u32 wide, T *out, const T *grad, VIEW input, const T *weight, const A *rstd) {
  Row row(wide);
  if (row.index >= rows) return;
  u64 begin = row.index * columns;
  In<T> x(input);
  grad += begin, out += begin;
  A r = rstd[row.index], product = A(0);
  for (u64 j = row.lane; j < columns; j += row.width) product += widen(grad[j]) * widen(weight[j]) * widen(x.at(begin + j)) * r;
  product = row.reduce<Sum>(product) / A(columns);
  for (u64 j = row.lane; j < columns; j += row.width)
    out[j] = narrow<T>(r * (widen(grad[j]) * widen(weight[j]) - widen(x.at(begin + j)) * r * product));
}
