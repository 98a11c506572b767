// silu: x / (1 + exp(-x)); its gradient from the input.

KERNEL silu_forward(u64 n, VIEW out, VIEW x) {
  map1(n, Out<T>(out), In<T>(x), [](T x_) {
    math_t<T> x = widen(x_);
    return narrow<T>(x / (1 + exp_(-x)));
  });
}

KERNEL silu_backward(u64 n, VIEW out, VIEW grad, VIEW saved) {
  map2(n, Out<T>(out), In<T>(grad), In<T>(saved), [](T g_, T x_) {
    math_t<T> g = widen(g_), x = widen(x_);
    math_t<T> s = 1 / (1 + exp_(-x));
    return narrow<T>(g * s * (1 + x * (1 - s)));
  });
}
