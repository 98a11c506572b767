// RMSprop: one launch for many tensors. Lists: parameter, gradient, square_avg, momentum buffer (0: none), grad_avg (0: not centered).

typedef math_t<T> A;

struct Settings {
  double lr, alpha, eps, momentum;
  u32 has_momentum, centered;
};

struct Update {
  A lr, alpha, rest, eps, momentum;
  u32 has_momentum, centered;

  static __device__ __forceinline__ constexpr bool writes(u32 list) { return list != 1; }

  __device__ __forceinline__ void operator()(T (&v)[5]) const {
    A g = widen(v[1]), s = alpha * A(widen(v[2])) + rest * g * g;
    v[2] = narrow<T>(s);
    if (centered) {
      A mean = widen(v[4]);
      mean += rest * (g - mean);
      v[4] = narrow<T>(mean);
      s -= mean * mean;
    }
    A change = g / (sqrt_(s) + eps);
    if (has_momentum) {
      change += momentum * A(widen(v[3]));
      v[3] = narrow<T>(change);
    }
    v[0] = narrow<T>(A(widen(v[0])) - lr * change);
  }
};

KERNEL rmsprop(LISTS(5) lists, Settings s) {
  lists.each<T, 5>(lists.tensor(), Update{A(s.lr), A(s.alpha), A(1 - s.alpha), A(s.eps), A(s.momentum), s.has_momentum, s.centered});
}
