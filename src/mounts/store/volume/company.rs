//! Whether other sessions have the store open.

use super::super::record::Revision;
use parking_lot::Mutex;

/// What is known of it.
#[derive(Default)]
pub struct Company(Mutex<State>);

#[derive(Default)]
struct State {
    /// The revision of the counter of sessions at which this session was the only one.
    alone: Option<Revision>,
    /// Counts what told that somebody may have come.
    news: u64,
}

/// To be taken before one looks who is there.
pub struct Stamp(u64);

impl Company {
    /// The revision of the counter of sessions at which nobody else was there; `None` where somebody may be.
    pub fn alone(&self) -> Option<Revision> {
        self.0.lock().alone
    }

    /// Somebody may have come.
    pub fn may_have_come(&self) {
        let mut state = self.0.lock();
        state.alone = None;
        state.news += 1;
    }

    pub fn stamp(&self) -> Stamp {
        Stamp(self.0.lock().news)
    }

    /// A look that began at `stamp` found nobody at this revision of the counter, or somebody. It is not believed where
    /// there was news meanwhile.
    pub fn looked(&self, stamp: &Stamp, alone: Option<Revision>) {
        let mut state = self.0.lock();
        state.alone = alone.filter(|_| state.news == stamp.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_that_news_overtook_is_not_believed() {
        let company = Company::default();
        let (early, at) = (company.stamp(), Some(Revision(7)));
        company.looked(&early, at);
        assert_eq!(company.alone(), at);
        company.may_have_come();
        assert_eq!(company.alone(), None);
        company.looked(&early, at);
        assert_eq!(company.alone(), None);
        company.looked(&company.stamp(), at);
        assert_eq!(company.alone(), at);
        company.looked(&company.stamp(), None);
        assert_eq!(company.alone(), None);
    }
}
