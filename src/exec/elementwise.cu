// Sums, products and constants, element by element.

typedef math_t<T> A;

extern "C" __global__ void fill(u64 n, T *out, double value) {
  for (u64 i = thread_index(); i < n; i += thread_count()) out[i] = narrow<T>(value);
}

extern "C" __global__ void scale(u64 n, T *out, const __grid_constant__ View x, double factor) {
  map1(n, out, in<T>(x), [=](T x) { return narrow<T>(widen(x) * A(factor)); });
}

extern "C" __global__ void add_scalar(u64 n, T *out, const __grid_constant__ View x, double value) {
  map1(n, out, in<T>(x), [=](T x) { return narrow<T>(widen(x) + A(value)); });
}

extern "C" __global__ void add(u64 n, T *out, const __grid_constant__ View a, const __grid_constant__ View b) {
  map2(n, out, in<T>(a), in<T>(b), [](T a, T b) { return narrow<T>(widen(a) + widen(b)); });
}

extern "C" __global__ void mul(u64 n, T *out, const __grid_constant__ View a, const __grid_constant__ View b) {
  map2(n, out, in<T>(a), in<T>(b), [](T a, T b) { return narrow<T>(widen(a) * widen(b)); });
}
