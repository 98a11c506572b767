// silu: x / (1 + exp(-x)); its gradient from the input.

extern "C" __global__ void silu_forward(u64 n, T *out, const __grid_constant__ View x) {
  map1(n, out, in<T>(x), [](T x_) {
    math_t<T> x = widen(x_);
    return narrow<T>(x / (1 + exp_(-x)));
  });
}

extern "C" __global__ void silu_backward(u64 n, T *out, const __grid_constant__ View grad, const __grid_constant__ View saved) {
  map2(n, out, in<T>(grad), in<T>(saved), [](T g_, T x_) {
    math_t<T> g = widen(g_), x = widen(x_);
    math_t<T> s = 1 / (1 + exp_(-x));
    return narrow<T>(g * s * (1 + x * (1 - s)));
  });
}
