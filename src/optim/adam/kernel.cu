// Adam and AdamW: one launch for many tensors. Lists: parameter, gradient, exp_avg, exp_avg_sq, max_exp_avg_sq (0: no amsgrad), and the
// address of the step counter (0: the host counts, and `step` says).

typedef math_t<T> A;

struct Settings {
  double lr, beta1, beta2, eps, weight_decay, step;
  u32 decoupled, amsgrad;
};

struct Update {
  A lr, rest1, beta2, rest2, eps, weight_decay, step_size, root;
  u32 decoupled, amsgrad;
  Scaling scaling;

  static __device__ __forceinline__ constexpr bool writes(u32 list) { return list != 1; }

  __device__ __forceinline__ void operator()(T (&v)[5]) const {
    A p = widen(v[0]), g = scaling.unscale(A(widen(v[1]))), m = widen(v[2]), s = widen(v[3]);
    if (decoupled) p -= lr * weight_decay * p;
    else if (weight_decay != A(0)) g += weight_decay * p;
    m += rest1 * (g - m);
    s = s * beta2 + rest2 * g * g;
    v[2] = narrow<T>(m), v[3] = narrow<T>(s);
    if (amsgrad) {
      s = max_(s, A(widen(v[4])));
      v[4] = narrow<T>(s);
    }
    v[0] = narrow<T>(p - step_size * (m / (sqrt_(s) / root + eps)));
  }
};

KERNEL adam(LISTS(6) lists, Settings s, const float *grad_scale, const float *found_inf) {
  Scaling scaling = {grad_scale, found_inf};
  if (scaling.skips()) return;
  __shared__ A corrections[2];
  u32 t = lists.tensor();
  if (threadIdx.x == 0) {
    double step = lists.address[5][t] ? *reinterpret_cast<const float *>(lists.address[5][t]) : s.step;
    corrections[0] = A(s.lr / (1 - pow(s.beta1, step)));
    corrections[1] = A(sqrt(1 - pow(s.beta2, step)));
  }
  __syncthreads();
  Update update = {A(s.lr), A(1 - s.beta1), A(s.beta2), A(1 - s.beta2), A(s.eps), A(s.weight_decay), corrections[0], corrections[1],
                   s.decoupled, s.amsgrad, scaling};
  lists.each<T, 5>(t, update);
}

// Counts a step, where it is not skipped. A block has one counter.
KERNEL adam_count(LISTS(1) steps, const float *found_inf) {
  if (found_inf && *found_inf != 0.f) return;
  if (threadIdx.x == 0) *reinterpret_cast<float *>(steps.address[0][steps.tensor()]) += 1.f;
}
