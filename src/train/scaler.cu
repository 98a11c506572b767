// The gradient scaler's work on the GPU. T is the gradients' type.

struct Unscale {
  math_t<T> inverse;
  float *found;

  static __device__ __forceinline__ constexpr bool writes(u32) { return true; }

  __device__ __forceinline__ void operator()(T (&v)[1]) const {
    math_t<T> g = widen(v[0]);
    if (!(abs_(g) <= math_t<T>(3.4028234663852886e38))) *found = 1.f;
    v[0] = narrow<T>(inverse == 1 ? g : g * inverse);
  }
};

// Multiplies gradients by the inverse and raises the flag where one is infinite or not a number.
KERNEL scaler_unscale(LISTS(1) grads, const float *inverse, float *found) {
  grads.each<T, 1>(grads.tensor(), Unscale{math_t<T>(*inverse), found});
}

// After the step: halves the scale where something was found, doubles it after `interval` steps in a row where nothing was.
KERNEL scaler_update(float *scale, int *growth_tracker, const float *found, float growth, float backoff, int interval) {
  if (*found != 0.f) {
    *scale *= backoff;
    *growth_tracker = 0;
    return;
  }
  int successes = *growth_tracker + 1;
  if (successes == interval) {
    float grown = *scale * growth;
    if (abs_(grown) <= 3.4028234663852886e38f) *scale = grown;
    successes = 0;
  }
  *growth_tracker = successes;
}
