// relu: max(x, 0), NaN stays NaN; its gradient passes where the result is positive.

extern "C" __global__ void relu_forward(u64 n, T *out, const __grid_constant__ View x) {
  map1(n, out, in<T>(x), [](T x_) {
    math_t<T> x = widen(x_);
    return narrow<T>(x < 0 ? 0 : x);
  });
}

extern "C" __global__ void relu_backward(u64 n, T *out, const __grid_constant__ View grad, const __grid_constant__ View saved) {
  map2(n, out, in<T>(grad), in<T>(saved), [](T g_, T y_) {
    math_t<T> g = widen(g_), y = widen(y_);
    return narrow<T>(y <= 0 ? 0 : g);
  });
}
