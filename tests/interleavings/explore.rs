//! Which orders of the calls there are to run.
//!
//! All are, but for this: of two orders that differ only in reads that follow one another, one is enough. (What was
//! tried first at a place sleeps in the branches after it, until a call comes that it does not commute with.)

use super::gate::Call;
use std::collections::BTreeSet;

/// A place in the order of the calls.
struct Place {
    ready: Vec<(usize, Call)>,
    sleeping: BTreeSet<usize>,
    tried: BTreeSet<usize>,
    chosen: usize,
}

impl Place {
    fn call(&self, client: usize) -> Call {
        self.ready.iter().find(|(ready, _)| *ready == client).map_or(Call::Commit, |(_, call)| *call)
    }

    /// The first client that is neither asleep nor was tried here.
    fn next(&self) -> Option<usize> {
        self.ready.iter().map(|(client, _)| *client).find(|n| !self.sleeping.contains(n) && !self.tried.contains(n))
    }

    /// Who sleeps at the place after this one.
    fn still_sleeping(&self) -> BTreeSet<usize> {
        if self.call(self.chosen) == Call::Commit {
            return BTreeSet::new();
        }
        let both = self.sleeping.union(&self.tried);
        both.copied().filter(|client| *client != self.chosen && self.call(*client) == Call::Read).collect()
    }
}

/// Walks through all orders, one run after another.
#[derive(Default)]
pub struct Explorer {
    /// How many runs there were.
    pub runs: usize,
    places: Vec<Place>,
    at: usize,
    /// All that could be tried from here on is the same as something that was.
    known: bool,
}

impl Explorer {
    /// A run begins.
    pub fn begin(&mut self) {
        self.runs += 1;
        self.at = 0;
        self.known = false;
    }

    /// Chooses who is stepped, of those that can be.
    pub fn choose(&mut self, ready: Vec<(usize, Call)>) -> usize {
        let first = ready[0].0;
        let at = self.at;
        self.at += 1;
        if let Some(place) = self.places.get(at) {
            return if ready.iter().any(|(client, _)| *client == place.chosen) { place.chosen } else { first };
        }
        let sleeping = self.places.last().map_or_else(BTreeSet::new, Place::still_sleeping);
        let mut place = Place { ready, sleeping, tried: BTreeSet::new(), chosen: first };
        match place.next() {
            Some(client) if !self.known => {
                place.chosen = client;
                self.places.push(place);
                client
            }
            _ => {
                self.known = true;
                first
            }
        }
    }

    /// Who was stepped, in order.
    pub fn order(&self) -> Vec<usize> {
        self.places.iter().map(|place| place.chosen).collect()
    }

    /// Goes on to the next order; false where there is none.
    pub fn advance(&mut self) -> bool {
        while let Some(place) = self.places.last_mut() {
            place.tried.insert(place.chosen);
            if let Some(client) = place.next() {
                place.chosen = client;
                return true;
            }
            self.places.pop();
        }
        false
    }
}
