// layer_norm over the last dimension. Statistics are in the arithmetic's type; `bias` may be absent (0). A warp or a block a row.

typedef math_t<T> A;

KERNEL layer_norm_forward(
    u64 rows, u64 columns, u32 wide, double eps, T *out, A *mean, A *rstd, VIEW input, const T *weight, const T *bias) {
  Row row(wide);
  if (row.index >= rows) return;
  u64 begin = row.index * columns;
  In<T> x(input);
  A sum = A(0), squares = A(0);
  for (u64 j = row.lane; j < columns; j += row.width) sum += widen(x.at(begin + j));
  A m = row.reduce<Sum>(sum) / A(columns);
  for (u64 j = row.lane; j < columns; j += row.width) {
    A d = widen(x.at(begin + j)) - m;
    squares += d * d;
  }
  A r = rsqrt_(row.reduce<Sum>(squares) / A(columns) + A(eps));
  for (u64 j = row.lane; j < columns; j += row.width) {
    A y = (widen(x.at(begin + j)) - m) * r * widen(weight[j]);
    out[begin + j] = narrow<T>(bias ? y + widen(bias[j]) : y);
  }
  if (row.lane == 0) mean[row.index] = m, rstd[row.index] = r;
}

KERNEL layer_norm_backward(
    u64 rows, u64 columns, u32 wide, T *out, const T *grad, VIEW input, const T *weight, const A *mean, const A *rstd) {
  Row row(wide);
  if (row.index >= rows) return;
  u64 begin = row.index * columns;
  In<T> x(input);
  grad += begin, out += begin;
  A m = mean[row.index], r = rstd[row.index], sum = A(0), product = A(0);
  for (u64 j = row.lane; j < columns; j += row.width) {
    A g = widen(grad[j]) * widen(weight[j]);
    sum += g;
    product += g * (widen(x.at(begin + j)) - m) * r;
  }
  sum = row.reduce<Sum>(sum) / A(columns);
  product = row.reduce<Sum>(product) / A(columns);
  for (u64 j = row.lane; j < columns; j += row.width) {
    A g = widen(grad[j]) * widen(weight[j]);
    out[j] = narrow<T>(r * (g - sum - (widen(x.at(begin + j)) - m) * r * product));
  }
}
