//! Runs random operations on a world and on the reference, and compares.

use super::choose::Chooser;
use super::op::Op;
use super::reference::{Id, Model, When, refused};
use super::world::{Answer, Habits, World, judge};
use std::collections::VecDeque;
use workfs::types::{Errno, Timestamp};

/// Operations that a failure shows.
const SHOWN: usize = 40;

/// A world, the reference, and what was done to both.
pub struct Run<W> {
    pub world: W,
    pub model: Model,
    pub habits: Habits,
    pub steps: u64,
    last: VecDeque<String>,
}

impl<W: World> Run<W> {
    pub fn new(world: W, model: Model, habits: Habits) -> Run<W> {
        Run { world, model, habits, steps: 0, last: VecDeque::new() }
    }

    /// A random operation, and a look at what it may have changed.
    pub async fn step(&mut self, chooser: &mut Chooser) {
        let (model, world) = (&self.model, &self.world);
        let op = chooser.next(model, &|id| world.knows(id));
        self.steps += 1;
        let before = op.subjects(&self.model);
        self.act(&op).await;
        let after = if matches!(op, Op::Close { .. }) { Vec::new() } else { op.subjects(&self.model) };
        let slots = self.model.slots.iter().flatten().map(|handle| handle.node);
        let mut seen: Vec<Id> = before.into_iter().chain(after).chain(slots).collect();
        seen.sort_unstable();
        seen.dedup();
        for id in seen {
            if self.is_reachable(id) {
                self.act(&Op::Stat(id)).await;
            }
        }
    }

    fn is_reachable(&self, id: Id) -> bool {
        let inode = self.model.nodes.get(&id);
        inode.is_some_and(|inode| inode.names > 0) || self.model.is_open(id) || self.world.knows(id)
    }

    /// Does one operation to both and compares.
    pub async fn act(&mut self, op: &Op) {
        let earliest = Timestamp::now().0 - self.habits.tick;
        let answer = self.world.perform(op, &self.model).await;
        self.model.now = When { earliest, latest: Timestamp::now().0 };
        let unsupported = matches!((op, &answer), (Op::Allocate { .. }, Answer::Refused(Errno::EOPNOTSUPP)));
        // A host may lack a way to allocate; then nothing has changed.
        let verdict = if unsupported { refused(Errno::EOPNOTSUPP) } else { op.apply(&mut self.model) };
        let judged = judge(&mut self.model, &verdict, &answer, self.habits);
        self.note(op, &answer);
        if let Err(wrong) = judged {
            self.fail(&wrong);
        }
        self.retire();
    }

    /// What nobody holds is gone.
    pub fn retire(&mut self) {
        let world = &self.world;
        self.model.retire(|id| world.knows(id));
        self.world.retired(&self.model);
    }

    fn note(&mut self, op: &Op, answer: &Answer) {
        if matches!(op, Op::Stat(_)) && !matches!(answer, Answer::Refused(_)) {
            return;
        }
        let text: String = format!("{op:?} -> {answer:?}").chars().take(300).collect();
        if self.last.len() == SHOWN {
            self.last.pop_front();
        }
        self.last.push_back(format!("{:>8}: {text}", self.steps));
    }

    /// Ends the test with what led there.
    pub fn fail(&self, wrong: &str) -> ! {
        self.last.iter().for_each(|line| eprintln!("{line}"));
        panic!("after {} steps:\n{wrong}", self.steps);
    }
}
