// relu: max(x, 0), NaN stays NaN; its gradient passes where the result is positive.

KERNEL relu_forward(u64 n, VIEW out, VIEW x) {
  map1(n, Out<T>(out), In<T>(x), [](T x_) {
    math_t<T> x = widen(x_);
    return narrow<T>(x < 0 ? 0 : x);
  });
}

KERNEL relu_backward(u64 n, VIEW out, VIEW grad, VIEW saved) {
  map2(n, Out<T>(out), In<T>(grad), In<T>(saved), [](T g_, T y_) {
    math_t<T> g = widen(g_), y = widen(y_);
    return narrow<T>(y <= 0 ? 0 : g);
  });
}
