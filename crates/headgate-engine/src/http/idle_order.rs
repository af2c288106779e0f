//! Idle connections in the order in which they became idle: a list within a slab, so that one can leave from the middle
//! without a search, and without a look at those in between.

/// A place in the list, valid until what is there leaves.
pub type IdleIndex = u32;

/// Stands for "none".
const NONE: IdleIndex = IdleIndex::MAX;

/// See the top of this file.
#[derive(Debug)]
pub struct IdleOrder<T> {
    slots: Vec<Slot<T>>,
    first: IdleIndex,
    last: IdleIndex,
    /// Slots without a value, each with the next one as its `next`.
    free: IdleIndex,
    len: usize,
}

#[derive(Debug)]
struct Slot<T> {
    value: Option<T>,
    previous: IdleIndex,
    next: IdleIndex,
}

impl<T> Default for IdleOrder<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), first: NONE, last: NONE, free: NONE, len: 0 }
    }
}

impl<T> IdleOrder<T> {
    pub fn len(&self) -> usize {
        self.len
    }

    /// Appends a value and returns its place.
    pub fn push(&mut self, value: T) -> IdleIndex {
        let slot = Slot { value: Some(value), previous: self.last, next: NONE };
        let index = self.free;
        let index = if let Some(free) = self.slots.get_mut(index as usize) {
            self.free = free.next;
            *free = slot;
            index
        } else {
            self.slots.push(slot);
            (self.slots.len() - 1) as IdleIndex
        };
        self.set_next(self.last, index);
        self.last = index;
        self.len += 1;
        index
    }

    pub fn first(&self) -> Option<&T> {
        self.slots.get(self.first as usize)?.value.as_ref()
    }

    pub fn first_index(&self) -> Option<IdleIndex> {
        (self.first != NONE).then_some(self.first)
    }

    /// Takes out what is at this place.
    pub fn remove(&mut self, index: IdleIndex) -> Option<T> {
        let slot = self.slots.get_mut(index as usize)?;
        let value = slot.value.take()?;
        let (previous, next) = (slot.previous, slot.next);
        slot.next = self.free;
        self.free = index;
        self.set_next(previous, next);
        match self.slots.get_mut(next as usize) {
            Some(slot) => slot.previous = previous,
            None => self.last = previous,
        }
        self.len -= 1;
        Some(value)
    }

    fn set_next(&mut self, index: IdleIndex, next: IdleIndex) {
        match self.slots.get_mut(index as usize) {
            Some(slot) => slot.next = next,
            None => self.first = next,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn values_leave_first_come_first_served_or_from_the_middle_and_slots_are_used_again(
            steps in proptest::collection::vec(0..4_usize, 0..200), picks in any::<usize>(),
        ) {
            let mut order = IdleOrder::default();
            let mut model: Vec<(IdleIndex, usize)> = Vec::new();
            let mut longest = 0;
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    0 | 1 => model.push((order.push(number), number)),
                    2 if !model.is_empty() => {
                        let (index, value) = model.remove(picks % model.len());
                        prop_assert_eq!(Some(value), order.remove(index));
                        prop_assert_eq!(None, order.remove(index));
                    }
                    _ => {
                        let expected = if model.is_empty() { None } else { Some(model.remove(0).1) };
                        let first = order.first_index().and_then(|index| order.remove(index));
                        prop_assert_eq!(expected, first);
                    }
                }
                longest = longest.max(model.len());
                prop_assert_eq!(model.first().map(|(_, value)| value), order.first());
                prop_assert_eq!((model.len(), longest), (order.len(), order.slots.len()));
            }
        }
    }
}
