// 1 / sqrt(x): its gradient from the result.

KERNEL rsqrt_forward(u64 n, VIEW out, VIEW x) {
  map1(n, Out<T>(out), In<T>(x), [](T x_) {
    math_t<T> x = widen(x_);
    return narrow<T>(rsqrt_(x));
  });
}

KERNEL rsqrt_backward(u64 n, VIEW out, VIEW grad, VIEW saved) {
  map2(n, Out<T>(out), In<T>(grad), In<T>(saved), [](T g_, T y_) {
    math_t<T> g = widen(g_), y = widen(y_);
    return narrow<T>(math_t<T>(-0.5) * g * (y * y * y));
  });
}
