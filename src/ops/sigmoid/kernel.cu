// sigmoid: 1 / (1 + exp(-x)); its gradient from the result.

extern "C" __global__ void sigmoid_forward(u64 n, T *out, const __grid_constant__ View x) {
  map1(n, out, in<T>(x), [](T x_) {
    math_t<T> x = widen(x_);
    return narrow<T>(1 / (1 + exp_(-x)));
  });
}

extern "C" __global__ void sigmoid_backward(u64 n, T *out, const __grid_constant__ View grad, const __grid_constant__ View saved) {
  map2(n, out, in<T>(grad), in<T>(saved), [](T g_, T y_) {
    math_t<T> g = widen(g_), y = widen(y_);
    return narrow<T>(g * (1 - y) * y);
  });
}
