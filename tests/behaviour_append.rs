//! O_APPEND: no byte is lost and no line is torn, however many processes write.

use crate::harness::actor::Part;
use crate::harness::{Failed, each_kind, put, slurp};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;

/// A child's role: appends `numbers[1]` lines of `numbers[2]` bytes, each of the digit `numbers[0]`.
pub fn append_lines(part: &Part) {
    let [digit, count, length] = part.numbers[..] else { panic!("three numbers") };
    let mut line = vec![b'0' + digit as u8; length as usize - 1];
    line.push(b'\n');
    let mut file = File::options().append(true).create(true).open(&part.path).expect("open");
    for _ in 0..count {
        file.write_all(&line).expect("append");
    }
    crate::harness::sys::close(file).expect("close");
}

/// Each line is of one digit and as long as it was written, and there are as many as were written.
fn assert_whole(bytes: &[u8], writers: u64, count: u64, length: u64) {
    assert_eq!(bytes.len() as u64, writers * count * length, "bytes were lost");
    let mut counts = vec![0; writers as usize];
    for line in bytes.split_inclusive(|&byte| byte == b'\n') {
        assert_eq!(line.len() as u64, length, "a line is torn");
        assert!(line[..line.len() - 1].iter().all(|&byte| byte == line[0]), "two lines are mixed");
        counts[usize::from(line[0] - b'0')] += 1;
    }
    assert!(counts.iter().all(|&lines| lines == count), "{counts:?}");
}

each_kind! {
    fn processes_append_to_one_file(scene) {
        let path = scene.at("log");
        let writers: Vec<_> = (0..4).map(|digit| scene.actor("append", &path, &[digit, 500, 120])).collect();
        writers.into_iter().for_each(|writer| drop(writer.text()));
        assert_whole(&slurp(&path), 4, 500, 120);
    }

    fn lines_longer_than_a_page_stay_whole(scene) {
        let path = scene.at("log");
        let writers: Vec<_> = (0..3).map(|digit| scene.actor("append", &path, &[digit, 40, 30_001])).collect();
        writers.into_iter().for_each(|writer| drop(writer.text()));
        assert_whole(&slurp(&path), 3, 40, 30_001);
    }

    fn threads_append_through_descriptors_of_their_own(scene) {
        let path = scene.at("a");
        std::thread::scope(|threads| {
            for digit in 0..3_u64 {
                let part = Part { path: path.clone(), numbers: vec![digit, 500, 20] };
                threads.spawn(move || append_lines(&part));
            }
        });
        assert_whole(&slurp(&path), 3, 500, 20);
    }

    fn an_append_goes_to_the_end_wherever_one_is(scene) {
        let path = scene.at("f");
        put(&path, b"one");
        let mut file = File::options().read(true).append(true).open(&path).expect("open");
        file.seek(SeekFrom::Start(0)).expect("seek");
        file.write_all(b"two").expect("append");
        assert_eq!(slurp(&path), b"onetwo");
        assert_eq!(file.stream_position().expect("tell"), 6, "the position follows");
        file.seek(SeekFrom::Start(1)).expect("seek");
        let mut bytes = [0; 3];
        file.read_exact(&mut bytes).expect("read");
        assert_eq!(&bytes, b"net");
        File::options().append(true).open(&path).expect("open").write_all(b"three").expect("append");
        file.write_all(b"four").expect("append behind what another appended");
        assert_eq!(slurp(&path), b"onetwothreefour");
    }

    fn an_append_follows_a_truncation(scene) {
        let path = scene.at("f");
        put(&path, [b'x'; 1000]);
        let mut file = File::options().append(true).open(&path).expect("open");
        file.write_all(b"1").expect("append");
        File::options().write(true).open(&path).expect("open").set_len(3).expect("truncate");
        file.write_all(b"2").expect("append");
        assert_eq!(slurp(&path), b"xxx2");
    }

    fn shells_append_to_one_log(scene) {
        let script = "for i in 1 2 3 4; do (for j in $(seq 100); do echo \"line $i $j\" >> log; done) & done; wait; sort log | uniq | wc -l; wc -l < log";
        assert_eq!(scene.bash(script, &[]).split_whitespace().collect::<Vec<_>>(), ["400", "400"]);
    }

    fn an_append_only_descriptor_does_not_read(scene) {
        let mut file = File::options().append(true).create(true).open(scene.at("f")).expect("open");
        let mut byte = [0];
        assert_eq!(file.read(&mut byte).errno(), Errno::BADF);
        assert_eq!(file.read_at(&mut byte, 0).errno(), Errno::BADF);
    }
}
