// rms_norm over the last dimension. The statistic is in the arithmetic's type. A warp or a block a row.

typedef math_t<T> A;

KERNEL __launch_bounds__(512, 2) rms_norm_forward(u64 rows, u64 columns, u32 wide, double eps, T *out, A *rstd, VIEW input, const T *weight) {
  Row row(wide);
  if (row.index >= rows) return;
  u64 begin = row.index * columns;
  In<T> x(input);
  A squares = A(0);
  walk(row, x, begin, columns, [&](u64, Pack<T, Width<T>::value> &pack, int n) {
    EACH(k, Width<T>::value, n) squares += widen(pack[k]) * widen(pack[k]);
  });
  A r = rsqrt_(row.reduce<Sum>(squares) / A(columns) + A(eps));
  walk(row, x, begin, columns, [&](u64 j, Pack<T, Width<T>::value> &pack, int n) {
    const int N = Width<T>::value;
    Pack<T, N> w;
    gather(w, weight + j, n);
    EACH(k, N, n) pack[k] = narrow<T>(widen(pack[k]) * r * widen(w[k]));
    scatter(pack, out + begin + j, n);
  });
  if (row.lane == 0) rstd[row.index] = r;
}

KERNEL __launch_bounds__(512, 2) rms_norm_backward(u64 rows, u64 columns, u32 wide, T *out, const T *grad, VIEW input, const T *weight, const A *rstd) {
  Row row(wide);
  if (row.index >= rows) return;
  u64 begin = row.index * columns;
  In<T> x(input);
  grad += begin, out += begin;
  A r = rstd[row.index], product = A(0);
  walk(row, x, begin, columns, [&](u64 j, Pack<T, Width<T>::value> &pack, int n) {
    const int N = Width<T>::value;
    Pack<T, N> g, w;
    gather(g, grad + j, n);
    gather(w, weight + j, n);
    EACH(k, N, n) product += widen(g[k]) * widen(w[k]) * widen(pack[k]) * r;
  });
  product = row.reduce<Sum>(product) / A(columns);
  walk(row, x, begin, columns, [&](u64 j, Pack<T, Width<T>::value> &pack, int n) {
    const int N = Width<T>::value;
    Pack<T, N> g, w;
    gather(g, grad + j, n);
    gather(w, weight + j, n);
    EACH(k, N, n) pack[k] = narrow<T>(r * (widen(g[k]) * widen(w[k]) - widen(pack[k]) * r * product));
    scatter(pack, out + j, n);
  });
}
