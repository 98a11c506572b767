// mse_loss: the squares, whose mean is taken apart from here; and the gradient of the mean.

typedef math_t<T> A;

extern "C" __global__ void mse_loss_forward(u64 n, T *out, const __grid_constant__ View x, const __grid_constant__ View target) {
  map2(n, out, in<T>(x), in<T>(target), [](T x, T t) {
    A d = widen(x) - widen(t);
    return narrow<T>(d * d);
  });
}

// `factor` is 2/n.
extern "C" __global__ void mse_loss_backward(
    u64 n, T *out, const __grid_constant__ View x, const __grid_constant__ View target, const T *grad, double factor) {
  A scale = A(factor) * widen(grad[0]);
  map2(n, out, in<T>(x), in<T>(target), [=](T x, T t) { return narrow<T>(scale * (widen(x) - widen(t))); });
}
