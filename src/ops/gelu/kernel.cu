// gelu, exact and with tanh; their gradients from the input.

typedef math_t<T> A;

// sqrt(1/2), 1/sqrt(2 pi), sqrt(2/pi), and the weight of the cubic term.
#define HALF_ROOT A(0.70710678118654752440)
#define DENSITY A(0.39894228040143267794)
#define BETA A(0.79788456080286535588)
#define KAPPA A(0.044715)

KERNEL gelu_none_forward(u64 n, VIEW out, VIEW x) {
  map1(n, Out<T>(out), In<T>(x), [](T x_) {
    A x = widen(x_);
    return narrow<T>(x * A(0.5) * (1 + erf_(x * HALF_ROOT)));
  });
}

KERNEL gelu_none_backward(u64 n, VIEW out, VIEW grad, VIEW saved) {
  map2(n, Out<T>(out), In<T>(grad), In<T>(saved), [](T g, T x_) {
    A x = widen(x_);
    A share = A(0.5) * (1 + erf_(x * HALF_ROOT));
    return narrow<T>(widen(g) * (share + x * exp_(A(-0.5) * x * x) * DENSITY));
  });
}

KERNEL gelu_tanh_forward(u64 n, VIEW out, VIEW x) {
  map1(n, Out<T>(out), In<T>(x), [](T x_) {
    A x = widen(x_);
    return narrow<T>(A(0.5) * x * (1 + tanh_(BETA * (x + KAPPA * x * x * x))));
  });
}

KERNEL gelu_tanh_backward(u64 n, VIEW out, VIEW grad, VIEW saved) {
  map2(n, Out<T>(out), In<T>(grad), In<T>(saved), [](T g, T x_) {
    A x = widen(x_);
    A t = tanh_(BETA * (x + KAPPA * x * x * x));
    A slope = A(0.5) * x * (1 - t * t) * BETA * (1 + 3 * KAPPA * x * x);
    return narrow<T>(widen(g) * (A(0.5) * (1 + t) + slope));
  });
}
