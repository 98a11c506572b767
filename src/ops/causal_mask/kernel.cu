// 0 on and below the diagonal of a square, minus infinity above it.

KERNEL causal_mask(u64 n, u64 length, T *out) {
  for (u64 i = thread_index(); i < n; i += thread_count()) {
    u64 row = i / length;
    out[i] = narrow<T>(i - row * length <= row ? 0.0f : -__int_as_float(0x7f800000));
  }
}
