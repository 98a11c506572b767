// SGD: one launch for many tensors. Lists: parameter, gradient, momentum buffer (zeros at first; 0: none).

typedef math_t<T> A;

struct Settings {
  double lr, momentum, weight_decay;
  u32 nesterov, has_momentum;
};

struct Update {
  A lr, momentum, weight_decay;
  u32 nesterov, has_momentum;
  Scaling scaling;

  static __device__ __forceinline__ constexpr bool writes(u32 list) { return list != 1; }

  __device__ __forceinline__ void operator()(T (&v)[3]) const {
    A p = widen(v[0]), g = scaling.unscale(A(widen(v[1])));
    if (weight_decay != A(0)) g += weight_decay * p;
    if (has_momentum) {
      A buffer = momentum * A(widen(v[2])) + g;
      v[2] = narrow<T>(buffer);
      g = nesterov ? g + momentum * buffer : buffer;
    }
    v[0] = narrow<T>(p - lr * g);
  }
};

KERNEL sgd(LISTS(3) lists, Settings s, const float *grad_scale, const float *found_inf) {
  Scaling scaling = {grad_scale, found_inf};
  if (scaling.skips()) return;
  lists.each<T, 3>(lists.tensor(), Update{A(s.lr), A(s.momentum), A(s.weight_decay), s.nesterov, s.has_momentum, scaling});
}
