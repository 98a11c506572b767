// dropout: four elements draw from one Philox number, whose index is theirs by four; an element stays where its uniform number is at least p.

typedef math_t<T> A;

template <class F> __device__ __forceinline__ void draw(u64 n, float p, u64 seed, u64 offset, F f) {
  for (u64 four = thread_index(); four * 4 < n; four += thread_count()) {
    Four bits = philox(seed, offset, four);
#pragma unroll
    for (int j = 0; j < 4; j++)
      if (four * 4 + j < n) f(four * 4 + j, uniform(bits.x[j]) >= p);
  }
}

extern "C" __global__ void dropout_forward(u64 n, T *out, bool *mask, const __grid_constant__ View x, float p, double scale, u64 seed, u64 offset) {
  In<T> t = in<T>(x);
  draw(n, p, seed, offset, [=](u64 i, bool keep) {
    mask[i] = keep;
    out[i] = narrow<T>(keep ? widen(t.at(i)) * A(scale) : A(0));
  });
}

extern "C" __global__ void dropout_backward(u64 n, T *out, const __grid_constant__ View grad, const __grid_constant__ View mask, double scale) {
  map2(n, out, in<T>(grad), in<bool>(mask), [=](T g, bool keep) { return narrow<T>(keep ? widen(g) * A(scale) : A(0)); });
}

// For dropout in place: what the values are multiplied by.
extern "C" __global__ void dropout_noise(u64 n, T *noise, float p, double scale, u64 seed, u64 offset) {
  draw(n, p, seed, offset, [=](u64 i, bool keep) { noise[i] = narrow<T>(keep ? A(scale) : A(0)); });
}
