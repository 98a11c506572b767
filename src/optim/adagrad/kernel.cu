// Adagrad: one launch for many tensors. Lists: parameter, gradient, sum of squares.

typedef math_t<T> A;

struct Update {
  A lr, eps;

  static __device__ __forceinline__ constexpr bool writes(u32 list) { return list != 1; }

  __device__ __forceinline__ void operator()(T (&v)[3]) const {
    A g = widen(v[1]), sum = A(widen(v[2])) + g * g;
    v[2] = narrow<T>(sum);
    v[0] = narrow<T>(A(widen(v[0])) - lr * (g / (sqrt_(sum) + eps)));
  }
};

struct Settings { double lr, eps; };

KERNEL adagrad(LISTS(3) lists, Settings s) { lists.each<T, 3>(lists.tensor(), Update{A(s.lr), A(s.eps)}); }
