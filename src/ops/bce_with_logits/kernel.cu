// binary_cross_entropy_with_logits: the losses, whose mean is taken apart from here; and the gradient of the mean.

typedef math_t<T> A;

KERNEL bce_with_logits_forward(u64 n, VIEW out, VIEW x, VIEW target) {
  map2(n, Out<T>(out), In<T>(x), In<T>(target), [](T x_, T t) {
    A x = widen(x_);
    A log_sigmoid = min_(x, A(0)) - log1p_(exp_(-abs_(x)));
    return narrow<T>((1 - widen(t)) * x - log_sigmoid);
  });
}

// `factor` is 1/n.
KERNEL bce_with_logits_backward(
    u64 n, VIEW out, VIEW x, VIEW target, const T *grad, double factor) {
  A scale = A(factor) * widen(grad[0]);
  map2(n, Out<T>(out), In<T>(x), In<T>(target), [=](T x, T t) { return narrow<T>((1 / (1 + exp_(-widen(x))) - widen(t)) * scale); });
}
