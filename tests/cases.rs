//! Faults that people met in filesystems of this kind, the right answer to each, and the tests that show it here. The
//! numbers are those under which they were collected.

use crate::semantics::assert_exists;

/// A case: its number, the right answer, and the tests that show it.
type Case = (&'static str, &'static str, &'static [&'static str]);

const CASES: &[Case] = &[
    (
        "M1",
        "programs that write at once tear no git object, no database and no text, and bring no NUL byte in",
        &["many_writers::git_sqlite_and_yaml_work_side_by_side", "suites::a_crowd_leaves_everything_in_order"],
    ),
    ("M2", "git appends to its logs when branches are switched", &["programs::branches_are_switched"]),
    (
        "M3",
        "a store that is mounted can be opened by a second process, which sees the same files",
        &["behaviour_views::two_processes_open_one_sqlite_file"],
    ),
    ("M5", "a submodule keeps its git directory outside its own root", &["programs::submodules_and_clones_work"]),
    (
        "M6",
        "a renamed directory takes every file along",
        &["behaviour_rename::a_moved_directory_takes_everything_along"],
    ),
    (
        "M7",
        "a file is truncated by its own open, renamed over while open, and linked to by symlinks; a signal that comes \
         in between makes no rename and no removal fail",
        &[
            "behaviour_data::an_open_that_truncates_starts_afresh",
            "behaviour_rename::git_renames_its_lock_over_head",
            "behaviour_rename::signals_make_no_change_fail",
            "behaviour_kinds::symlinks_keep_their_target_as_it_is",
        ],
    ),
    (
        "M8",
        "writers at two places of one store never wait for each other while the kernel is told of their changes",
        &["behaviour_views::writers_on_both_never_wait_for_each_other"],
    ),
    (
        "M9",
        "a file's number is not used again as long as anybody holds the file",
        &["behaviour_unlinked::a_number_is_not_used_again_while_its_file_is_held"],
    ),
    ("M10", "the size that stat tells is what read gives", &["behaviour_data::sizes_show_while_writing"]),
    (
        "M11",
        "a name is any bytes but the slash and NUL, up to 255",
        &[
            "behaviour_names::every_byte_can_be_in_a_name",
            "behaviour_names::two_hundred_and_fifty_five_bytes_are_the_most",
        ],
    ),
    (
        "M12",
        "an unlinked file lives until its last close, also where another place unlinked it",
        &[
            "behaviour_unlinked::an_open_file_outlives_its_name",
            "behaviour_views::an_open_file_outlives_an_unlink_by_the_other",
        ],
    ),
    (
        "M13",
        "a rename can be told to replace nothing, or to exchange",
        &["behaviour_rename::noreplace_replaces_nothing", "behaviour_rename::exchange_swaps_whatever_they_are"],
    ),
    (
        "M14",
        "whoever opens a file while it is renamed over finds the old one or the new one",
        &["behaviour_rename::opens_never_miss_a_file_that_is_renamed_over"],
    ),
    (
        "M15",
        "whoever makes a read-only file can write it through the descriptor, and change its mode",
        &["behaviour_attributes::a_file_made_read_only_can_be_written_by_its_maker"],
    ),
    (
        "M16",
        "a mapping is never stale, and a file that was opened past the cache can be mapped",
        &[
            "behaviour_mmap::reading_a_mapping_shows_the_file_as_it_is_now",
            "behaviour_mmap::a_file_opened_past_the_cache_can_be_mapped",
        ],
    ),
    (
        "M17",
        "a listing never takes the size of a file that is being written back to an old one",
        &["behaviour_listing::sizes_in_a_listing_are_the_newest"],
    ),
    (
        "M18",
        "data is never told as a hole, and copies keep both",
        &["behaviour_space::data_is_never_told_as_a_hole", "behaviour_space::cp_keeps_holes_and_data"],
    ),
    ("M19", "no two files of a mount have one number", &["behaviour_links::numbers_are_unique"]),
    (
        "M20",
        "a file that the kernel reads itself can be opened any number of times",
        &["passthrough::any_number_of_opens_share_one_backing_id"],
    ),
    (
        "M21",
        "whoever deletes what a listing shows has deleted everything at its end",
        &["behaviour_listing::deleting_while_listing_leaves_nothing"],
    ),
];

#[test]
fn every_case_has_tests_that_exist() {
    for (number, answer, tests) in CASES {
        assert!(!answer.is_empty() && !tests.is_empty(), "{number} has no test");
        tests.iter().for_each(|test| assert_exists(test));
    }
}
