//! `${NAME}` in a config file: taken from the environment.

/// What can be wrong with a value's variables.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum VarFault {
    /// This variable is not set.
    Missing(String),
    /// This is no way to write a variable.
    Malformed(String),
}

/// Replaces each `${NAME}` in `text` by what `lookup` says of `NAME`; `$${` stands for `${` itself, and any other
/// `$` for itself. What was put in is not looked at again.
///
/// All faults are returned, not only the first, so that they can be mended at once.
pub(super) fn expand(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<String, Vec<VarFault>> {
    let mut out = String::with_capacity(text.len());
    let mut faults = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let (before, after) = (&rest[..start], &rest[start + 2..]);
        if let Some(before) = before.strip_suffix('$') {
            out.push_str(before);
            out.push_str("${");
            rest = after;
            continue;
        }
        out.push_str(before);
        let Some(end) = after.find('}') else {
            faults.push(VarFault::Malformed("`${` without `}`; write `$${` for the two characters".to_owned()));
            break;
        };
        match variable(&after[..end], lookup) {
            Ok(value) => out.push_str(&value),
            Err(fault) => faults.push(fault),
        }
        rest = &after[end + 1..];
    }
    out.push_str(rest);
    if faults.is_empty() { Ok(out) } else { Err(faults) }
}

fn variable(name: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<String, VarFault> {
    let letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    let mut bytes = name.bytes();
    if !bytes.next().is_some_and(letter) || !bytes.all(|byte| letter(byte) || byte.is_ascii_digit()) {
        return Err(VarFault::Malformed(format!(
            "`${{{name}}}` names no variable: a name has letters, digits and `_`; write `$${{` for the two characters"
        )));
    }
    lookup(name).ok_or_else(|| VarFault::Missing(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(name: &str) -> Option<String> {
        match name {
            "HOME" => Some("/users/me".to_owned()),
            "EMPTY" => Some(String::new()),
            "TRICKY" => Some("${HOME}".to_owned()),
            _ => None,
        }
    }

    fn expanded(text: &str) -> Result<String, Vec<VarFault>> {
        expand(text, &environment)
    }

    #[test]
    fn variables_are_put_in_once() {
        assert_eq!(expanded("${HOME}/x${EMPTY}y").as_deref(), Ok("/users/me/xy"));
        assert_eq!(expanded("${TRICKY}").as_deref(), Ok("${HOME}"));
        assert_eq!(expanded("plain $5 $HOME $").as_deref(), Ok("plain $5 $HOME $"));
    }

    #[test]
    fn two_dollars_escape() {
        assert_eq!(expanded("$${HOME}").as_deref(), Ok("${HOME}"));
        assert_eq!(expanded("$${ and ${HOME}").as_deref(), Ok("${ and /users/me"));
        assert_eq!(expanded("$$").as_deref(), Ok("$$"));
    }

    #[test]
    fn every_fault_is_told() {
        let faults = expanded("${A}/${B}/${HOME}/${1}").expect_err("faults");
        assert_eq!(faults.len(), 3);
        assert_eq!(faults[..2], [VarFault::Missing("A".to_owned()), VarFault::Missing("B".to_owned())]);
        assert!(matches!(&faults[2], VarFault::Malformed(text) if text.contains("${1}")));
        assert!(matches!(&expanded("${HOME").expect_err("open")[..], [VarFault::Malformed(_)]));
    }
}
