//! Changes of blocks, inside the commit.
//!
//! A block is one row, and SQLite writes only those pages of a row that differ, as long as the row keeps its length.
//! So a block written once is as long as it must be, and one that grows afterwards is given room: its length goes up in
//! powers of two, and the room reads as zeros.

use super::script::Script;
use crate::mounts::store::engine::BlockChange;
use crate::types::{Errno, Error, Result};

/// What a block is given at least when it grows, in bytes.
const LEAST: u64 = 4096;

/// Writes the statements for one change. `back` is how many revisions before the group's last its commit is.
///
/// # Errors
/// `EINVAL` for a patch that reaches past its block.
pub fn write(script: &mut Script, ns: i64, block_size: u32, back: i64, change: &BlockChange) -> Result<()> {
    let size = u64::from(block_size);
    match change {
        BlockChange::Patch { node, index, offset, bytes } => {
            let end = u64::from(*offset) + bytes.len() as u64;
            if end > size {
                return Err(Error::new("commit", Errno::EINVAL).context("a patch reaches past its block"));
            }
            let place = Place { ns, back, node: node.0, index: *index };
            match bytes.len() as u64 {
                0 => {}
                whole if whole == size => replace(script, &place, bytes),
                _ => patch(script, &place, u64::from(*offset), end, bytes, size),
            }
        }
        BlockChange::Discard { node, start, end } if start < end => {
            discard(script, ns, back, node.0, *start..*end, size);
        }
        BlockChange::Discard { .. } => {}
    }
    Ok(())
}

/// A block, and the commit that changes it.
struct Place {
    ns: i64,
    back: i64,
    node: u64,
    index: u64,
}

fn insert(script: &mut Script, place: &Place, size: u64, bytes_sql: &str) {
    script.write(format_args!("INSERT INTO blocks(ns,ino,idx,revision,size,bytes) VALUES({},?,?,", place.ns));
    script.newest(place.ns).text("-?,?,").text(bytes_sql).text(")");
    script.number(place.node).number(place.index).bind(place.back).number(size);
}

fn replace(script: &mut Script, place: &Place, bytes: &[u8]) {
    insert(script, place, bytes.len() as u64, "?");
    script.bind(bytes);
    script.text(
        " ON CONFLICT(ns,ino,idx) DO UPDATE SET revision=excluded.revision,size=excluded.size,bytes=excluded.bytes;",
    );
}

fn patch(script: &mut Script, place: &Place, offset: u64, end: u64, bytes: &[u8], block_size: u64) {
    // Text and blob are the same bytes here; the cast only says that a blob is meant. `excluded.bytes` is what a new
    // block would be, so the patch is its rest after `offset`.
    let room = end.next_power_of_two().clamp(LEAST.min(block_size), block_size);
    if offset == 0 {
        insert(script, place, end, "?");
        script.bind(bytes);
    } else {
        insert(script, place, end, "CAST(zeroblob(?)||? AS BLOB)");
        script.number(offset).bind(bytes);
    }
    script.text(
        " ON CONFLICT(ns,ino,idx) DO UPDATE SET revision=excluded.revision,\
         size=iif(excluded.size<=size,size,?),\
         bytes=CAST(iif(excluded.size<=size,\
         substr(bytes,1,?)||substr(excluded.bytes,?)||substr(bytes,excluded.size+1),\
         substr(bytes,1,?)||zeroblob(max(?-size,0))||substr(excluded.bytes,?)||zeroblob(?)) AS BLOB);",
    );
    script.number(room).number(offset).number(offset + 1);
    script.number(offset).number(offset).number(offset + 1).number(room - end);
}

/// Whole blocks go, the two at the ends of the range are cleared or cut.
fn discard(script: &mut Script, ns: i64, back: i64, node: u64, range: std::ops::Range<u64>, size: u64) {
    let (first, last) = (range.start / size, (range.end - 1) / size);
    let whole = range.start.div_ceil(size)..range.end / size;
    // No file reaches beyond what 64 signed bits count, so the end of the range then is the end of the file.
    let to_the_end = range.end >= i64::MAX as u64;
    if to_the_end || whole.start < whole.end {
        let end = if to_the_end { i64::MAX as u64 } else { whole.end };
        script.write(format_args!("DELETE FROM blocks WHERE ns={ns} AND ino=? AND idx>=? AND idx<?;"));
        script.number(node).number(whole.start).number(end);
    }
    let start = range.start % size;
    if start > 0 {
        let end = if first == last { (range.end - 1) % size + 1 } else { size };
        clear(script, &Place { ns, back, node, index: first }, start, end);
    }
    let end = range.end % size;
    if end > 0 && !to_the_end && (first < last || start == 0) {
        clear(script, &Place { ns, back, node, index: last }, 0, end);
    }
}

/// Clears a part of a block; where nothing follows, the block ends before it.
fn clear(script: &mut Script, place: &Place, start: u64, end: u64) {
    let ns = place.ns;
    if start == 0 {
        script.write(format_args!("DELETE FROM blocks WHERE ns={ns} AND ino=? AND idx=? AND size<=?;"));
        script.number(place.node).number(place.index).number(end);
    }
    script.text("UPDATE blocks SET revision=").newest(ns).text("-?").bind(place.back);
    script.text(
        ",size=iif(size<=?,?,size),\
         bytes=iif(size<=?,substr(bytes,1,?),CAST(substr(bytes,1,?)||zeroblob(?)||substr(bytes,?) AS BLOB)) ",
    );
    script.number(end).number(start).number(end).number(start);
    script.number(start).number(end - start).number(end + 1);
    script.write(format_args!("WHERE ns={ns} AND ino=? AND idx=? AND size>?;"));
    script.number(place.node).number(place.index).number(start);
}
