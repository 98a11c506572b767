// Sums, products and constants, element by element.

typedef math_t<T> A;

KERNEL fill(u64 n, VIEW out, double value) {
  Out<T> o(out);
  for (u64 i = thread_index(); i < n; i += thread_count()) o.at(i) = narrow<T>(value);
}

KERNEL scale(u64 n, VIEW out, VIEW x, double factor) {
  map1(n, Out<T>(out), In<T>(x), [=](T x) { return narrow<T>(widen(x) * A(factor)); });
}

KERNEL add_scalar(u64 n, VIEW out, VIEW x, double value) {
  map1(n, Out<T>(out), In<T>(x), [=](T x) { return narrow<T>(widen(x) + A(value)); });
}

KERNEL add(u64 n, VIEW out, VIEW a, VIEW b) {
  map2(n, Out<T>(out), In<T>(a), In<T>(b), [](T a, T b) { return narrow<T>(widen(a) + widen(b)); });
}

KERNEL mul(u64 n, VIEW out, VIEW a, VIEW b) {
  map2(n, Out<T>(out), In<T>(a), In<T>(b), [](T a, T b) { return narrow<T>(widen(a) * widen(b)); });
}
