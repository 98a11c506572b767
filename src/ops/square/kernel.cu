// pow(x, 2): its gradient from the input.

KERNEL square_forward(u64 n, VIEW out, VIEW x) {
  map1(n, Out<T>(out), In<T>(x), [](T x_) {
    math_t<T> x = widen(x_);
    return narrow<T>(x * x);
  });
}

KERNEL square_backward(u64 n, VIEW out, VIEW grad, VIEW saved) {
  map2(n, Out<T>(out), In<T>(grad), In<T>(saved), [](T g_, T x_) {
    math_t<T> g = widen(g_), x = widen(x_);
    return narrow<T>(g * (2 * x));
  });
}
