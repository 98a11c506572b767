// softmax and log_softmax over the last dimension. T is the input's type, U the output's. A warp or a block a row.

typedef math_t<U> A;

// The largest element, and the sum of the exponentials of what each is below it.
struct Statistics { A max, sum; };

// What exponents are counted from: nothing is below minus infinity.
__device__ __forceinline__ A origin(A most) { return most == Max::zero<A>() ? A(0) : most; }

// In one pass: a thread's sum is brought down to its new largest element with every pack.
__device__ __forceinline__ Statistics statistics(const Row &row, u64 begin, u64 columns, const In<T> &x) {
  A most = Max::zero<A>(), sum = A(0);
  walk(row, x, begin, columns, [&](u64, Pack<T, Width<T>::value> &pack, int n) {
    const int N = Width<T>::value;
    A high = most, part = A(0);
    EACH(k, N, n) high = max_(high, A(widen(pack[k])));
    A from = origin(high);
    EACH(k, N, n) part += exp_(A(widen(pack[k])) - from);
    sum = sum * exp_(most - from) + part;
    most = high;
  });
  A all = row.reduce<Max>(most);
  return Statistics{all, row.reduce<Sum>(sum * exp_(most - origin(all)))};
}

KERNEL __launch_bounds__(512, 2) softmax_forward(u64 rows, u64 columns, u32 wide, U *out, VIEW input) {
  Row row(wide);
  if (row.index >= rows) return;
  u64 begin = row.index * columns;
  In<T> x(input);
  Statistics s = statistics(row, begin, columns, x);
  walk(row, x, begin, columns, [&](u64 j, Pack<T, Width<T>::value> &pack, int n) {
    const int N = Width<T>::value;
    Pack<U, N> y;
    EACH(k, N, n) y[k] = narrow<U>(exp_(A(widen(pack[k])) - s.max) / s.sum);
    scatter(y, out + begin + j, n);
  });
}

KERNEL __launch_bounds__(512, 2) softmax_backward(u64 rows, u64 columns, u32 wide, T *out, VIEW grad, VIEW result) {
  Row row(wide);
  if (row.index >= rows) return;
  u64 begin = row.index * columns;
  In<U> g(grad), y(result);
  A sum = A(0);
  walk(row, y, begin, columns, [&](u64 j, Pack<U, Width<U>::value> &pack, int n) {
    const int N = Width<U>::value;
    Pack<U, N> of_y;
    g.gather(of_y, begin + j, n);
    EACH(k, N, n) sum += widen(of_y[k]) * widen(pack[k]);
  });
  sum = row.reduce<Sum>(sum);
  walk(row, y, begin, columns, [&](u64 j, Pack<U, Width<U>::value> &pack, int n) {
    const int N = Width<U>::value;
    Pack<U, N> of_y;
    Pack<T, N> x;
    g.gather(of_y, begin + j, n);
    EACH(k, N, n) x[k] = narrow<T>((widen(of_y[k]) - sum) * widen(pack[k]));
    scatter(x, out + begin + j, n);
  });
}

KERNEL __launch_bounds__(512, 2) log_softmax_forward(u64 rows, u64 columns, u32 wide, U *out, VIEW input) {
  Row row(wide);
  if (row.index >= rows) return;
  u64 begin = row.index * columns;
  In<T> x(input);
  Statistics s = statistics(row, begin, columns, x);
  A log_sum = log_(s.sum);
  walk(row, x, begin, columns, [&](u64 j, Pack<T, Width<T>::value> &pack, int n) {
    const int N = Width<T>::value;
    Pack<U, N> y;
    EACH(k, N, n) y[k] = narrow<U>(A(widen(pack[k])) - s.max - log_sum);
    scatter(y, out + begin + j, n);
  });
}

KERNEL __launch_bounds__(512, 2) log_softmax_backward(u64 rows, u64 columns, u32 wide, T *out, VIEW grad, VIEW result) {
  Row row(wide);
  if (row.index >= rows) return;
  u64 begin = row.index * columns;
  In<U> g(grad), y(result);
  A sum = A(0);
  walk(row, g, begin, columns, [&](u64, Pack<U, Width<U>::value> &pack, int n) {
    EACH(k, Width<U>::value, n) sum += widen(pack[k]);
  });
  sum = row.reduce<Sum>(sum);
  walk(row, y, begin, columns, [&](u64 j, Pack<U, Width<U>::value> &pack, int n) {
    const int N = Width<U>::value;
    Pack<U, N> of_y;
    Pack<T, N> x;
    g.gather(of_y, begin + j, n);
    EACH(k, N, n) x[k] = narrow<T>(widen(of_y[k]) - exp_(A(widen(pack[k]))) * sum);
    scatter(x, out + begin + j, n);
  });
}
