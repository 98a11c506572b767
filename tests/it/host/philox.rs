//! Random numbers: the published ones, and their distributions.

use runner::device::host::Philox;

#[test]
fn agrees_with_the_published_vectors() {
    // From the authors' known-answer file: counter and key all zero, then all one bits.
    assert_eq!(Philox::new(0, 0).bits(0), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
    assert_eq!(Philox::new(u64::MAX, u64::MAX).bits(u64::MAX), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
}

#[test]
fn is_distributed_as_it_says() {
    let groups = 0..25_000;
    let moments = |f: fn(Philox, u64) -> [f32; 4]| {
        let values: Vec<f64> = groups.clone().flat_map(|g| f(Philox::new(3, 1), g)).map(f64::from).collect();
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        (mean, values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n)
    };
    let (mean, variance) = moments(Philox::uniform);
    assert!((mean - 0.5).abs() < 5e-3 && (variance - 1.0 / 12.0).abs() < 2e-3, "{mean} {variance}");
    let (mean, variance) = moments(Philox::normal);
    assert!(mean.abs() < 1.5e-2 && (variance - 1.0).abs() < 2e-2, "{mean} {variance}");
}
