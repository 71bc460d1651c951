//! How rows are put into each table.

use super::script::{ROWS, Script};

/// A table, and how rows are put into it. In `values` each `@` is an argument, `#` the namespace, and `^` the
/// revision of the group's last member, from which an argument is taken off.
pub struct Table {
    insert: &'static str,
    values: &'static str,
    replace: &'static str,
}

/// A file with both its records.
pub const FILES: Table = Table {
    insert: "inodes(ns,ino,revision,kind,mode,uid,gid,rdev,parent,target,born,\
             stats_revision,size,links,entries,atime,mtime,ctime,allocated)",
    values: "@,^-@,@,@,@,@,@,@,@,@,^-@,@,@,@,@,@,@,(SELECT coalesce(sum(size),0) FROM blocks WHERE ns=# AND ino=@)",
    replace: "(ns,ino) DO UPDATE SET revision=excluded.revision,kind=excluded.kind,mode=excluded.mode,\
              uid=excluded.uid,gid=excluded.gid,rdev=excluded.rdev,parent=excluded.parent,target=excluded.target,\
              born=excluded.born,stats_revision=excluded.stats_revision,size=excluded.size,links=excluded.links,\
              entries=excluded.entries,atime=excluded.atime,mtime=excluded.mtime,ctime=excluded.ctime,\
              allocated=excluded.allocated",
};

/// A file's identity alone.
pub const IDENTITIES: Table = Table {
    insert: "inodes(ns,ino,revision,kind,mode,uid,gid,rdev,parent,target,born)",
    values: "@,^-@,@,@,@,@,@,@,@,@",
    replace: "(ns,ino) DO UPDATE SET revision=excluded.revision,kind=excluded.kind,mode=excluded.mode,\
              uid=excluded.uid,gid=excluded.gid,rdev=excluded.rdev,parent=excluded.parent,target=excluded.target,\
              born=excluded.born",
};

/// A file's statistics alone.
pub const STATS: Table = Table {
    insert: "inodes(ns,ino,stats_revision,size,links,entries,atime,mtime,ctime,allocated)",
    values: "@,^-@,@,@,@,@,@,@,(SELECT coalesce(sum(size),0) FROM blocks WHERE ns=# AND ino=@)",
    replace: "(ns,ino) DO UPDATE SET stats_revision=excluded.stats_revision,size=excluded.size,links=excluded.links,\
              entries=excluded.entries,atime=excluded.atime,mtime=excluded.mtime,ctime=excluded.ctime,\
              allocated=excluded.allocated",
};

/// Directory entries.
pub const DENTRIES: Table = Table {
    insert: "dentries(ns,dir,name,revision,ino,kind,cookie)",
    values: "@,@,^-@,@,@,@",
    // Only the name may meet: a cookie that meets another entry's fails, as it should.
    replace: "(ns,dir,name) DO UPDATE SET revision=excluded.revision,ino=excluded.ino,kind=excluded.kind,\
              cookie=excluded.cookie",
};

/// Extended attributes.
pub const XATTRS: Table = Table {
    insert: "xattrs(ns,ino,name,revision,value)",
    values: "@,@,^-@,@",
    replace: "(ns,ino,name) DO UPDATE SET revision=excluded.revision,value=excluded.value",
};

/// Orphans.
pub const ORPHANS: Table = Table {
    insert: "orphans(ns,ino,revision,since)",
    values: "@,^-@,@",
    replace: "(ns,ino) DO UPDATE SET revision=excluded.revision,since=excluded.since",
};

/// Claims.
pub const CLAIMS: Table = Table {
    insert: "claims(ns,ino,session,revision)",
    values: "@,@,^-@",
    replace: "(ns,ino,session) DO UPDATE SET revision=excluded.revision",
};

/// Sessions.
pub const SESSIONS: Table = Table {
    insert: "sessions(ns,id,revision,seen,acknowledged,pid,started,place)",
    values: "@,^-@,@,@,@,@,@",
    replace: "(ns,id) DO UPDATE SET revision=excluded.revision,seen=excluded.seen,\
              acknowledged=excluded.acknowledged,pid=excluded.pid,started=excluded.started,place=excluded.place",
};

/// Counters.
pub const COUNTERS: Table = Table {
    insert: "counters(ns,name,revision,value)",
    values: "@,^-@,@",
    replace: "(ns,name) DO UPDATE SET revision=excluded.revision,value=excluded.value",
};

/// Locks.
pub const LOCKS: Table = Table {
    insert: "locks(ns,ino,revision,held)",
    values: "@,^-@,@",
    replace: "(ns,ino) DO UPDATE SET revision=excluded.revision,held=excluded.held",
};

/// What commits changed.
pub const CHANGES: Table = Table {
    insert: "changes(ns,revision,session,at,keys,data)",
    values: "^-@,@,@,@,@",
    // The revision is new, so this never happens.
    replace: "(ns,revision) DO NOTHING",
};

/// Puts rows into a table, replacing those that are there; `bind` binds the arguments of one.
pub fn insert<T>(script: &mut Script, ns: i64, table: &Table, rows: &[T], bind: impl Fn(&mut Script, &T)) {
    let width = table.values.matches('@').count();
    for part in rows.chunks(ROWS) {
        let one = part.len() == 1;
        script.text("INSERT INTO ").text(table.insert).text(if one { " VALUES (" } else { " SELECT " });
        expressions(script, ns, table.values, one);
        if one {
            script.text(")");
            bind(script, &part[0]);
        } else {
            script.text(" FROM ").values(part, width, &bind).text(" WHERE column1 IS NOT NULL");
        }
        script.text(" ON CONFLICT").text(table.replace).text(";");
    }
}

fn expressions(script: &mut Script, ns: i64, template: &str, one: bool) {
    let mut argument = 0;
    script.write(format_args!("{ns},"));
    for part in template.split_inclusive(['@', '^', '#']) {
        script.text(part.trim_end_matches(['@', '^', '#']));
        match part.as_bytes().last() {
            Some(b'@') if one => script.text("?"),
            Some(b'@') => {
                argument += 1;
                script.write(format_args!("column{argument}"))
            }
            Some(b'^') => script.newest(ns),
            Some(b'#') => script.write(format_args!("{ns}")),
            _ => script,
        };
    }
}
