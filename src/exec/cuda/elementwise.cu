// Constants, and arithmetic with a number, element by element.

typedef math_t<T> A;

KERNEL fill(u64 n, VIEW out, double value) {
  const int N = Width<T>::value;
  Out<T> o(out);
  Pack<T, N> pack;
#pragma unroll
  for (int j = 0; j < N; j++) pack[j] = narrow<T>(value);
  u64 packed = o.packs<N>() ? n / N : 0;
  for (u64 i = thread_index(); i < packed; i += thread_count()) pack.store(o.p + o.place(i * N));
  for (u64 i = packed * N + thread_index(); i < n; i += thread_count()) o.at(i) = pack[0];
}

KERNEL scale(u64 n, VIEW out, VIEW x, double factor) {
  map1(n, Out<T>(out), In<T>(x), [=](T x) { return narrow<T>(widen(x) * A(factor)); });
}

KERNEL add_scalar(u64 n, VIEW out, VIEW x, double value) {
  map1(n, Out<T>(out), In<T>(x), [=](T x) { return narrow<T>(widen(x) + A(value)); });
}

KERNEL reciprocal(u64 n, VIEW out, VIEW x) {
  map1(n, Out<T>(out), In<T>(x), [](T x) { return narrow<T>(1 / widen(x)); });
}
