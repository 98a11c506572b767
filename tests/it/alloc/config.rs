//! Allocator settings: what PyTorch reads, this reads the same; what it refuses, this refuses with its limits in the message.

use runner::alloc::{Allocator, AllocatorConfig, Divisions, Placement};

fn refused(text: &str) -> String {
    text.parse::<AllocatorConfig>().unwrap_err().to_string()
}

#[test]
fn no_settings_are_pytorchs_defaults() {
    assert_eq!("".parse::<AllocatorConfig>().unwrap(), AllocatorConfig::default());
    assert_eq!(AllocatorConfig::default().max_split_size(), None);
}

#[test]
fn settings_are_read_in_any_order_and_spacing() {
    let config: AllocatorConfig =
        " expandable_segments : True , max_split_size_mb:32,roundup_power2_divisions:[256:1,512:2,>:8],large_segment_size_mb:24 "
            .parse()
            .unwrap();
    assert!(config.expandable_segments);
    assert_eq!(config.max_split_size(), Some(32 << 20));
    assert_eq!("max_split_size_mb:64,max_split_size_mb:32".parse::<AllocatorConfig>().unwrap().max_split_size(), Some(32 << 20));
    let huge: AllocatorConfig = "max_split_size_mb:18446744073709551615".parse().unwrap();
    assert_eq!(huge.max_split_size(), Some(u64::MAX >> 20 << 20));
}

#[test]
fn a_large_segment_is_what_other_sizes_are_measured_by() {
    let reserved = |text: &str, first: u64, second: u64| {
        let mut allocator = Allocator::new(text.parse().unwrap(), Box::new(Placement::new(1 << 30)));
        let block = allocator.malloc(first << 20).unwrap();
        allocator.free(block);
        let block = allocator.malloc(second << 20).unwrap();
        allocator.free(block);
        allocator.reserved() >> 20
    };
    assert_eq!(reserved("max_split_size_mb:64", 96, 70), 166);
    assert_eq!(reserved("max_split_size_mb:64", 96, 80), 96);
    assert_eq!(reserved("max_split_size_mb:64,large_segment_size_mb:40", 96, 70), 96);
    assert_eq!(reserved("max_split_size_mb:64,large_segment_size_mb:12", 96, 80), 176);
    assert!("max_split_size_mb:15,large_segment_size_mb:12".parse::<AllocatorConfig>().is_ok());
}

#[test]
fn what_reaches_no_figure_is_checked_and_changes_nothing() {
    let text = "backend:native,release_lock_on_cudamalloc:True,pinned_use_cuda_host_register:False,pinned_num_register_threads:8,\
                pinned_use_background_threads:True,pinned_reserve_segment_size_mb:1,graph_capture_record_stream_reuse:True,";
    assert_eq!(text.parse::<AllocatorConfig>().unwrap(), AllocatorConfig::default());
}

#[test]
fn a_share_of_all_memory_is_a_limit() {
    let limit = |text: &str, limit| {
        let mut config: AllocatorConfig = text.parse().unwrap();
        config.memory_limit = limit;
        Allocator::new(config, Box::new(Placement::new(1001))).config().memory_limit
    };
    assert_eq!(limit("per_process_memory_fraction:0.5", None), Some(500));
    assert_eq!(limit("per_process_memory_fraction:0.5", Some(400)), Some(400));
    assert_eq!(limit("per_process_memory_fraction:1", None), None);
}

#[test]
fn settings_are_spelled_as_they_are_read() {
    for text in [
        "",
        "max_split_size_mb:32",
        "max_split_size_mb:64,max_non_split_rounding_mb:40,large_segment_size_mb:24,roundup_power2_divisions:4,\
         garbage_collection_threshold:0.6,expandable_segments:True,per_process_memory_fraction:0.5",
    ] {
        assert_eq!(text.parse::<AllocatorConfig>().unwrap().to_string(), text);
    }
    let listed: AllocatorConfig = "roundup_power2_divisions:[256:1,512:2,>:8]".parse().unwrap();
    assert_eq!(listed.to_string().parse::<AllocatorConfig>().unwrap(), listed);
}

#[test]
fn divisions_fill_intervals_as_pytorch_does() {
    let steps = |text: &str| *text.parse::<Divisions>().unwrap().steps();
    assert_eq!(steps("4"), [4; 16]);
    // The first entry fills up to its own interval, later ones set one, > fills above the last; what nobody names stays 0.
    assert_eq!(steps("[256:1,512:2,>:8]"), [1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 8, 8, 8, 8, 8, 8]);
    assert_eq!(steps("[4:2,16:8]"), [2, 2, 2, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(steps("[1:4,1048576:0]"), [4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn mistakes_name_pytorchs_limits() {
    for (text, message) in [
        ("max_split_size_mb:19", "max_split_size_mb is 19, but must be at least 20 (MiB)"),
        ("max_non_split_rounding_mb:1", "max_non_split_rounding_mb is 1, but must be at least 20 (MiB)"),
        ("max_split_size_mb:30,large_segment_size_mb:40", "max_split_size_mb is 30, but must be at least 40 (MiB)"),
        ("large_segment_size_mb:40,max_non_split_rounding_mb:39", "max_non_split_rounding_mb is 39, but must be at least 40 (MiB)"),
        ("large_segment_size_mb:10", "large_segment_size_mb is 10, but must be at least 11 (MiB)"),
        ("garbage_collection_threshold:1", "garbage_collection_threshold is 1, but must lie between 0 and 1, both excluded"),
        ("garbage_collection_threshold:NaN", "garbage_collection_threshold is NaN, but must lie between 0 and 1, both excluded"),
        ("roundup_power2_divisions:3", "roundup_power2_divisions: divisions must be powers of two, 3 is not"),
        ("roundup_power2_divisions:[100:4]", "roundup_power2_divisions: intervals must be powers of two, 100 is not"),
        ("expandable_segments:true", "expandable_segments: expected True or False, found `true`"),
        ("max_split_size_mb:many", "max_split_size_mb: expected a whole number, found `many`"),
        ("max_split_size_mb", "expected `:` after `max_split_size_mb`, found the end"),
        ("max_split_size_mb:32;", "max_split_size_mb: expected a whole number, found `32;`"),
        ("max_split_size_mb:32:1", "expected `,` after `a value`, found `:`"),
        ("roundup_power2_divisions:[256:1", "expected `,` after `an entry`, found the end"),
        ("backend:cudaMallocAsync", "backend is `cudaMallocAsync`, but this allocator is PyTorch's `native`"),
        ("per_process_memory_fraction:1.5", "per_process_memory_fraction is 1.5, but must lie between 0 and 1"),
        ("pinned_num_register_threads:3", "pinned_num_register_threads is 3, but must be a power of two and at most 128"),
        ("release_lock_on_cudamalloc:yes", "release_lock_on_cudamalloc: expected True or False, found `yes`"),
        (
            "max_split:32",
            "`max_split` is no allocator setting; there are max_split_size_mb, roundup_power2_divisions, garbage_collection_threshold, \
             expandable_segments, large_segment_size_mb, max_non_split_rounding_mb, per_process_memory_fraction",
        ),
    ] {
        assert_eq!(refused(text), message, "{text}");
    }
}

#[test]
fn more_divisions_than_a_size_has_bytes_still_give_whole_blocks() {
    for divisions in [1_u64 << 54, 1 << 55, 1 << 63] {
        let config = format!("roundup_power2_divisions:{divisions}").parse().unwrap();
        let mut allocator = Allocator::new(config, Box::new(Placement::new(1 << 30)));
        let block = allocator.malloc(3000).unwrap();
        assert_eq!(block.bytes(), 3072, "{divisions}");
        allocator.free(block);
    }
}
