//! The routing table: the endpoints, their limits, and the requests in flight on each. It admits requests under one
//! lock and contains no HTTP code.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};

use super::control::Routing;
use crate::production::api::Endpoint;

/// Maximum number of requests that wait for a place. Further requests are refused at once.
const QUEUE: usize = 4096;

/// The current routing and the requests in flight.
#[derive(Debug)]
pub(super) struct Table {
    inner: Mutex<Inner>,
    /// Wakes waiting requests when a place becomes free or the routing changes.
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
    /// Number of the last request that it got, counted over all endpoints.
    turn: u64,
    /// True while the endpoint is part of the routing. False if it only has requests in flight left.
    listed: bool,
}

/// Why there is no place for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoPlace {
    /// The request has already been sent to every listed endpoint.
    AllTried,
    /// Too many requests are waiting.
    QueueFull,
}

impl Table {
    /// Replaces the routing. Requests in flight go on.
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

    /// Returns a receiver of the greatest epoch that is in force.
    pub(super) fn acknowledged(&self) -> watch::Receiver<u64> {
        self.acknowledged.subscribe()
    }

    /// Waits for a place on an endpoint that is not in `tried`. Chooses the endpoint with the smallest share of its
    /// capacity in use.
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

    /// Removes endpoints that are delisted and idle, acknowledges the routing if it is in force, and wakes waiting
    /// requests.
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
    /// Returns true if the routing allows the requests in flight on this endpoint.
    fn fits(&self) -> bool {
        self.listed && self.in_flight <= self.endpoint.capacity
    }
}

impl Inner {
    /// Returns true if the routing allows all requests in flight.
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
            // Smallest share of capacity in use, with a/b < c/d computed as a*d < c*b. Of equal shares, the endpoint
            // whose last request is oldest, so that all endpoints get requests even under little load.
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

/// The place of a request on an endpoint. Dropping it frees the place.
#[derive(Debug)]
pub(super) struct Place {
    table: Arc<Table>,
    slot: u64,
    endpoint: Endpoint,
}

impl Place {
    /// Returns the id of the endpoint, for the list of tried endpoints.
    pub(super) fn slot(&self) -> u64 {
        self.slot
    }

    /// Returns the endpoint to which the request is sent.
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

/// Counts one waiting request while it exists.
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

    /// Returns the result of a request for a place if it does not have to wait.
    async fn at_once(table: &Arc<Table>, tried: &[u64]) -> Option<Result<Place, NoPlace>> {
        tokio::select! {
            biased;
            place = table.place(tried) => Some(place),
            () = std::future::ready(()) => None,
        }
    }

    #[tokio::test]
    async fn load_is_spread_by_capacity_and_never_exceeds_it() {
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
    async fn maximum_holds_over_all_endpoints_and_a_waiting_request_is_admitted_later() {
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
    async fn endpoints_with_equal_load_take_turns() {
        let table = Arc::new(Table::default());
        table.swap(routing(1, 9, &[(1, 5), (2, 5), (3, 5)]));
        let mut ports = vec![];
        for _ in 0..6 {
            ports.push(port(&table.place(&[]).await.unwrap()));
        }
        assert_eq!(ports, [1, 2, 3, 1, 2, 3]);
    }

    #[tokio::test]
    async fn routing_is_acknowledged_when_it_allows_all_requests_in_flight() {
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
        assert_eq!(
            *acknowledged.borrow(),
            2,
            "one request too many is still in flight"
        );
        drop(two);
        assert_eq!(*acknowledged.borrow(), 3);
    }

    #[tokio::test]
    async fn lower_endpoint_capacity_is_acknowledged_when_its_requests_in_flight_fit() {
        let table = Arc::new(Table::default());
        let acknowledged = table.acknowledged();
        table.swap(routing(1, 9, &[(1, 2)]));
        let places = [
            table.place(&[]).await.unwrap(),
            table.place(&[]).await.unwrap(),
        ];
        table.swap(routing(2, 9, &[(1, 1)]));
        assert_eq!(
            *acknowledged.borrow(),
            1,
            "one request too many is still in flight"
        );
        let [one, _other] = places;
        drop(one);
        assert_eq!(*acknowledged.borrow(), 2);
        assert!(at_once(&table, &[]).await.is_none());
    }

    #[tokio::test]
    async fn tried_endpoints_are_skipped_and_an_empty_routing_makes_requests_wait() {
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
