//! How far apart two lists of numbers are, as one number.
//!
//! Invariant: what is no number is never near.

/// `‖got − want‖ / ‖want‖`: 0 where both are all zeros, infinite where only `want` is or `got` is no number.
#[must_use]
pub fn relative_distance(got: &[f64], want: &[f64]) -> f64 {
    let norm = |squares: f64| squares.sqrt();
    let distance = norm(got.iter().zip(want).map(|(g, w)| (g - w) * (g - w)).sum());
    let size = norm(want.iter().map(|w| w * w).sum());
    if got.len() != want.len() || distance.is_nan() {
        f64::INFINITY
    } else if distance == 0.0 {
        0.0
    } else {
        distance / size
    }
}
