// Sums and products of a T and a U, as a V, in which the arithmetic is done.

typedef math_t<V> A;

KERNEL add(u64 n, VIEW out, VIEW left, VIEW right) {
  map2(n, Out<V>(out), In<T>(left), In<U>(right), [](T a, U b) { return narrow<V>(A(widen(a)) + A(widen(b))); });
}

KERNEL mul(u64 n, VIEW out, VIEW left, VIEW right) {
  map2(n, Out<V>(out), In<T>(left), In<U>(right), [](T a, U b) { return narrow<V>(A(widen(a)) * A(widen(b))); });
}
