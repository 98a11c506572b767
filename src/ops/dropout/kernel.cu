// dropout: four elements draw from one Philox number, whose index is theirs by four; an element stays where its uniform number is below `keep`.

typedef math_t<T> A;

template <class F> __device__ __forceinline__ void draw(u64 n, double keep, u64 seed, u64 stream, F f) {
  for (u64 four = thread_index(); four * 4 < n; four += thread_count()) {
    Four bits = philox(seed, stream, four);
#pragma unroll
    for (int j = 0; j < 4; j++)
      if (four * 4 + j < n) f(four * 4 + j, uniform(bits.x[j]) < keep);
  }
}

KERNEL dropout_forward(u64 n, VIEW out, bool *mask, VIEW x, double probability, double scale, u64 seed, u64 stream) {
  In<T> t(x);
  Out<T> o(out);
  draw(n, probability, seed, stream, [=](u64 i, bool keep) {
    mask[i] = keep;
    o.at(i) = narrow<T>(keep ? widen(t.at(i)) * A(scale) : A(0));
  });
}

KERNEL dropout_backward(u64 n, VIEW out, VIEW grad, VIEW mask, double scale) {
  map2(n, Out<T>(out), In<T>(grad), In<bool>(mask), [=](T g, bool keep) { return narrow<T>(keep ? widen(g) * A(scale) : A(0)); });
}

// For dropout in place: what the values are multiplied by.
KERNEL dropout_noise(u64 n, T *noise, double probability, double scale, u64 seed, u64 stream) {
  draw(n, probability, seed, stream, [=](u64 i, bool keep) { noise[i] = narrow<T>(keep ? A(scale) : A(0)); });
}
