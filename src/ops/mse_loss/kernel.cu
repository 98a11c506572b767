// mse_loss: the squares, whose mean is taken apart from here; and the gradient of the mean.

typedef math_t<T> A;

KERNEL mse_loss_forward(u64 n, VIEW out, VIEW x, VIEW target) {
  map2(n, Out<T>(out), In<T>(x), In<T>(target), [](T x, T t) {
    A d = widen(x) - widen(t);
    return narrow<T>(d * d);
  });
}

// `factor` is 2/n.
KERNEL mse_loss_backward(
    u64 n, VIEW out, VIEW x, VIEW target, const T *grad, double factor) {
  A scale = A(factor) * widen(grad[0]);
  map2(n, Out<T>(out), In<T>(x), In<T>(target), [=](T x, T t) { return narrow<T>(scale * (widen(x) - widen(t))); });
}
