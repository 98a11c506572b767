//! Shares of a sweep, and their names.

use runner::report::shard::Shard;

#[test]
fn shares_are_disjoint_and_everything() {
    for count in 1..=7 {
        for cases in 0..=20 {
            let shards: Vec<_> = (1..=count).map(|i| Shard::new(i, count).unwrap()).collect();
            for place in 0..cases {
                assert_eq!(shards.iter().filter(|s| s.takes(place)).count(), 1);
            }
            for shard in &shards {
                assert_eq!(shard.share_of(cases), (0..cases).filter(|&p| shard.takes(p)).count());
            }
        }
    }
}

#[test]
fn only_shards_read_as_shards() {
    assert_eq!("2/8".parse(), Ok(Shard::new(2, 8).unwrap()));
    for text in ["", "/", "0/8", "9/8", "2", "+2/8", "02/8", "2/8/1", "2/0", "99999999999999999999/8"] {
        assert!(text.parse::<Shard>().is_err(), "{text}");
    }
}

#[test]
fn a_name_reads_back() {
    let shard = Shard::new(10, 12).unwrap();
    assert_eq!(Shard::of_stem(&shard.stem("a.shard-1-of-2")), Some(("a.shard-1-of-2", shard)));
    assert_eq!(Shard::of_stem("adamw"), None);
    assert_eq!(Shard::of_stem("adamw.shard-3-of-2"), None);
}
