//! Where requests may go and how many are in flight there: admission, in one lock, apart from any HTTP.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};

use super::control::Routing;
use crate::production::api::Endpoint;

/// Requests that may wait for a place; more are turned away at once.
const QUEUE: usize = 4096;

/// The routing in force and what is in flight.
#[derive(Debug)]
pub(super) struct Table {
    inner: Mutex<Inner>,
    /// Something became free, or the routing changed.
    moved: Notify,
    acknowledged: watch::Sender<u64>,
}

impl Default for Table {
    fn default() -> Self {
        Self {
            inner: Mutex::default(),
            moved: Notify::new(),
            acknowledged: watch::Sender::new(0),
        }
    }
}

#[derive(Debug, Default)]
struct Inner {
    epoch: u64,
    max_capacity: u32,
    in_flight: u32,
    waiting: usize,
    last_slot: u64,
    turns: u64,
    slots: Vec<Slot>,
}

#[derive(Debug)]
struct Slot {
    id: u64,
    endpoint: Endpoint,
    in_flight: u32,
    /// Which request it got last, counted over all.
    turn: u64,
    /// Still part of the routing; otherwise it is here only for what is in flight.
    listed: bool,
}

/// Why there is no place for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoPlace {
    /// Every listed endpoint has been tried already.
    AllTried,
    /// Too many are waiting.
    QueueFull,
}

impl Table {
    /// Puts a routing in force. What is in flight goes on.
    pub(super) fn swap(&self, routing: Routing) {
        let mut inner = self.lock();
        inner.epoch = routing.epoch;
        inner.max_capacity = routing.max_capacity;
        for slot in &mut inner.slots {
            slot.listed = false;
        }
        for endpoint in routing.endpoints {
            inner.list(endpoint);
        }
        self.settle(inner);
    }

    /// The greatest epoch acknowledged so far.
    pub(super) fn acknowledged(&self) -> watch::Receiver<u64> {
        self.acknowledged.subscribe()
    }

    /// Waits for a place on an endpoint that is not among `tried`: the one least loaded for its size.
    pub(super) async fn place(self: &Arc<Self>, tried: &[u64]) -> Result<Place, NoPlace> {
        let mut waiting = None;
        loop {
            let moved = self.moved.notified();
            tokio::pin!(moved);
            moved.as_mut().enable();
            {
                let mut inner = self.lock();
                if let Some(slot) = inner.take(tried)? {
                    return Ok(Place {
                        table: Arc::clone(self),
                        slot: slot.0,
                        endpoint: slot.1,
                    });
                }
                if waiting.is_none() {
                    if inner.waiting >= QUEUE {
                        return Err(NoPlace::QueueFull);
                    }
                    inner.waiting += 1;
                    waiting = Some(Waiting(self));
                }
            }
            moved.await;
        }
    }

    /// Forgets what is over, acknowledges what is reached and wakes who waits.
    fn settle(&self, mut inner: MutexGuard<'_, Inner>) {
        inner.slots.retain(|slot| slot.listed || slot.in_flight > 0);
        if inner.is_in_force() {
            let epoch = inner.epoch;
            self.acknowledged
                .send_if_modified(|was| std::mem::replace(was, epoch) != epoch);
        }
        drop(inner);
        self.moved.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// What is in flight there may be there.
    fn fits(&self) -> bool {
        self.listed && self.in_flight <= self.endpoint.capacity
    }
}

impl Inner {
    /// Whether nothing is in flight that the routing does not allow.
    fn is_in_force(&self) -> bool {
        #[cfg(feature = "planted-faults")]
        if crate::planted::limit_told_early() {
            return true;
        }
        self.in_flight <= self.max_capacity && self.slots.iter().all(Slot::fits)
    }

    fn list(&mut self, endpoint: Endpoint) {
        let same = |slot: &&mut Slot| {
            slot.endpoint.name == endpoint.name && slot.endpoint.address == endpoint.address
        };
        if let Some(slot) = self.slots.iter_mut().find(same) {
            slot.endpoint.capacity = endpoint.capacity;
            slot.listed = true;
            return;
        }
        self.last_slot += 1;
        self.slots.push(Slot {
            id: self.last_slot,
            endpoint,
            in_flight: 0,
            turn: 0,
            listed: true,
        });
    }

    fn take(&mut self, tried: &[u64]) -> Result<Option<(u64, Endpoint)>, NoPlace> {
        let mut listed = self.slots.iter().filter(|slot| slot.listed).peekable();
        if listed.peek().is_some() && listed.all(|slot| tried.contains(&slot.id)) {
            return Err(NoPlace::AllTried);
        }
        if self.in_flight >= self.max_capacity {
            return Ok(None);
        }
        let best = self
            .slots
            .iter_mut()
            .filter(|slot| slot.listed && !tried.contains(&slot.id))
            .filter(|slot| slot.in_flight < slot.endpoint.capacity)
            // a/b < c/d as a*d < c*b: the least load for its size; of equals, whose turn was longest ago. So everyone is
            // seen to serve, under little load too.
            .reduce(|best, slot| {
                let ours = u64::from(slot.in_flight) * u64::from(best.endpoint.capacity);
                let bests = u64::from(best.in_flight) * u64::from(slot.endpoint.capacity);
                if (ours, slot.turn) < (bests, best.turn) {
                    slot
                } else {
                    best
                }
            });
        Ok(best.map(|slot| {
            self.turns += 1;
            slot.turn = self.turns;
            slot.in_flight += 1;
            self.in_flight += 1;
            (slot.id, slot.endpoint.clone())
        }))
    }
}

/// A request's place on an endpoint, free again when dropped.
#[derive(Debug)]
pub(super) struct Place {
    table: Arc<Table>,
    slot: u64,
    endpoint: Endpoint,
}

impl Place {
    /// Names the endpoint among those tried.
    pub(super) fn slot(&self) -> u64 {
        self.slot
    }

    /// Where to send the request.
    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut inner = self.table.lock();
        inner.in_flight -= 1;
        if let Some(slot) = inner.slots.iter_mut().find(|slot| slot.id == self.slot) {
            slot.in_flight -= 1;
        }
        self.table.settle(inner);
    }
}

/// Counts one who waits.
struct Waiting<'a>(&'a Table);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.lock().waiting -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use super::*;

    fn routing(epoch: u64, max_capacity: u32, endpoints: &[(u16, u32)]) -> Routing {
        let endpoints = endpoints.iter().map(|(port, capacity)| Endpoint {
            name: "a".into(),
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, *port)),
            capacity: *capacity,
        });
        Routing {
            epoch,
            max_capacity,
            endpoints: endpoints.collect(),
        }
    }

    fn port(place: &Place) -> u16 {
        place.endpoint().address.port()
    }

    /// Whether a request finds a place without waiting.
    async fn at_once(table: &Arc<Table>, tried: &[u64]) -> Option<Result<Place, NoPlace>> {
        tokio::select! {
            biased;
            place = table.place(tried) => Some(place),
            () = std::future::ready(()) => None,
        }
    }

    #[tokio::test]
    async fn load_is_spread_by_size_and_never_exceeds_it() {
        let table = Arc::new(Table::default());
        table.swap(routing(1, 100, &[(1, 1), (2, 3)]));
        let mut places = vec![];
        for _ in 0..4 {
            places.push(at_once(&table, &[]).await.unwrap().unwrap());
        }
        let ports: Vec<u16> = places.iter().map(port).collect();
        assert_eq!(ports, [1, 2, 2, 2]);
        assert!(at_once(&table, &[]).await.is_none());
        places.remove(1);
        assert_eq!(port(&at_once(&table, &[]).await.unwrap().unwrap()), 2);
    }

    #[tokio::test]
    async fn the_maximum_holds_over_all_and_one_who_waits_is_let_in_later() {
        let table = Arc::new(Table::default());
        table.swap(routing(1, 1, &[(1, 5), (2, 5)]));
        let first = table.place(&[]).await.unwrap();
        let waiting = tokio::spawn({
            let table = Arc::clone(&table);
            async move { table.place(&[]).await.map(|place| port(&place)) }
        });
        assert!(at_once(&table, &[]).await.is_none());
        drop(first);
        assert_eq!(waiting.await.unwrap(), Ok(2));
    }

    #[tokio::test]
    async fn of_those_with_equal_load_each_has_its_turn() {
        let table = Arc::new(Table::default());
        table.swap(routing(1, 9, &[(1, 5), (2, 5), (3, 5)]));
        let mut ports = vec![];
        for _ in 0..6 {
            ports.push(port(&table.place(&[]).await.unwrap()));
        }
        assert_eq!(ports, [1, 2, 3, 1, 2, 3]);
    }

    #[tokio::test]
    async fn a_routing_is_acknowledged_when_nothing_is_in_flight_outside_it() {
        let table = Arc::new(Table::default());
        let acknowledged = table.acknowledged();
        table.swap(routing(1, 2, &[(1, 5), (2, 5)]));
        assert_eq!(*acknowledged.borrow(), 1);
        let (one, two) = (
            table.place(&[]).await.unwrap(),
            table.place(&[]).await.unwrap(),
        );
        assert_eq!((port(&one), port(&two)), (1, 2));
        table.swap(routing(2, 2, &[(2, 5)]));
        assert_eq!(*acknowledged.borrow(), 1);
        drop(one);
        assert_eq!(*acknowledged.borrow(), 2);
        table.swap(routing(3, 0, &[(2, 5)]));
        assert_eq!(*acknowledged.borrow(), 2, "one too many is still in flight");
        drop(two);
        assert_eq!(*acknowledged.borrow(), 3);
    }

    #[tokio::test]
    async fn less_for_one_endpoint_is_acknowledged_when_no_more_is_in_flight_there() {
        let table = Arc::new(Table::default());
        let acknowledged = table.acknowledged();
        table.swap(routing(1, 9, &[(1, 2)]));
        let places = [
            table.place(&[]).await.unwrap(),
            table.place(&[]).await.unwrap(),
        ];
        table.swap(routing(2, 9, &[(1, 1)]));
        assert_eq!(*acknowledged.borrow(), 1, "one too many is still there");
        let [one, _other] = places;
        drop(one);
        assert_eq!(*acknowledged.borrow(), 2);
        assert!(at_once(&table, &[]).await.is_none());
    }

    #[tokio::test]
    async fn endpoints_that_failed_are_not_tried_again_and_an_empty_list_is_waited_out() {
        let table = Arc::new(Table::default());
        assert!(at_once(&table, &[]).await.is_none());
        table.swap(routing(1, 9, &[(1, 5), (2, 5)]));
        let one = table.place(&[]).await.unwrap();
        let two = table.place(&[one.slot()]).await.unwrap();
        assert_eq!(port(&two), 2);
        let both = [one.slot(), two.slot()];
        assert_eq!(
            at_once(&table, &both).await.unwrap().unwrap_err(),
            NoPlace::AllTried
        );
    }
}
