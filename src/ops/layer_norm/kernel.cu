// layer_norm over the last dimension. Statistics are in the arithmetic's type; `bias` may be absent (0). A warp or a block a row.

typedef math_t<T> A;

KERNEL __launch_bounds__(512, 2) layer_norm_forward(
    u64 rows, u64 columns, u32 wide, double eps, T *out, A *mean, A *rstd, VIEW input, const T *weight, const T *bias) {
  Row row(wide);
  if (row.index >= rows) return;
  u64 begin = row.index * columns;
  In<T> x(input);
  A sum = A(0), squares = A(0);
  walk(row, x, begin, columns, [&](u64, Pack<T, Width<T>::value> &pack, int n) {
    EACH(k, Width<T>::value, n) sum += widen(pack[k]);
  });
  A m = row.reduce<Sum>(sum) / A(columns);
  walk(row, x, begin, columns, [&](u64, Pack<T, Width<T>::value> &pack, int n) {
    EACH(k, Width<T>::value, n) {
      A d = widen(pack[k]) - m;
      squares += d * d;
    }
  });
  A r = rsqrt_(row.reduce<Sum>(squares) / A(columns) + A(eps));
  walk(row, x, begin, columns, [&](u64 j, Pack<T, Width<T>::value> &pack, int n) {
    const int N = Width<T>::value;
    Pack<T, N> w, b;
    gather(w, weight + j, n);
    if (bias) gather(b, bias + j, n);
    EACH(k, N, n) {
      A y = (widen(pack[k]) - m) * r * widen(w[k]);
      pack[k] = narrow<T>(bias ? y + widen(b[k]) : y);
    }
    scatter(pack, out + begin + j, n);
  });
  if (row.lane == 0) mean[row.index] = m, rstd[row.index] = r;
}

KERNEL __launch_bounds__(512, 2) layer_norm_backward(
    u64 rows, u64 columns, u32 wide, T *out, const T *grad, VIEW input, const T *weight, const A *mean, const A *rstd) {
  Row row(wide);
  if (row.index >= rows) return;
  u64 begin = row.index * columns;
  In<T> x(input);
  grad += begin, out += begin;
  A m = mean[row.index], r = rstd[row.index], sum = A(0), product = A(0);
  walk(row, x, begin, columns, [&](u64 j, Pack<T, Width<T>::value> &pack, int n) {
    const int N = Width<T>::value;
    Pack<T, N> g, w;
    gather(g, grad + j, n);
    gather(w, weight + j, n);
    EACH(k, N, n) {
      A y = widen(g[k]) * widen(w[k]);
      sum += y;
      product += y * (widen(pack[k]) - m) * r;
    }
  });
  sum = row.reduce<Sum>(sum) / A(columns);
  product = row.reduce<Sum>(product) / A(columns);
  walk(row, x, begin, columns, [&](u64 j, Pack<T, Width<T>::value> &pack, int n) {
    const int N = Width<T>::value;
    Pack<T, N> g, w;
    gather(g, grad + j, n);
    gather(w, weight + j, n);
    EACH(k, N, n)
      pack[k] = narrow<T>(r * (widen(g[k]) * widen(w[k]) - sum - (widen(pack[k]) - m) * r * product));
    scatter(pack, out + j, n);
  });
}
