//! Production: it outlives all control plane processes, and does not know which of them is the newest.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use control_plane::runtime::{Runtime, TokioRuntime};
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream},
    time::Instant,
};

use crate::{DEADLINE, draw::Draw};

/// File name of the socket.
pub(crate) const SOCKET: &str = "production.sock";

/// A request to production. A push names the process that sends it.
#[derive(Serialize, Deserialize)]
pub(crate) enum Question {
    Look {
        asset: String,
    },
    Push {
        asset: String,
        version: u64,
        life: u64,
    },
}

/// An answer of production. Some pushes get none.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    There(Option<Thing>),
    Done,
    Refused,
}

/// State of an asset in production.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Thing {
    At(u64),
    /// A push of the asset has begun and not ended, or was abandoned.
    Half,
}

/// How production executes a push.
#[derive(Debug, Clone)]
struct Fate {
    /// Duration of the push, at most half the deadline: a push always ends by its deadline.
    work: Duration,
    /// The answer; `None` means that there is none.
    answer: Option<End>,
    /// Whether the push continues after its caller has ended.
    goes_on: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Done,
    Refused,
}

impl Fate {
    fn draw(draw: &mut Draw) -> Self {
        let longest = DEADLINE.as_millis() as u64 / 2;
        let work = match draw.below(20) {
            0..14 => draw.ms(0..20),
            14..19 => draw.ms(20..200),
            _ => draw.ms(200..longest),
        };
        let answer = match draw.below(64) {
            0 => None,
            1..3 => Some(End::Refused),
            _ => Some(End::Done),
        };
        Self {
            work,
            answer,
            goes_on: draw.one_in(2),
        }
    }
}

/// The newest push of an asset that production received.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) life: u64,
    begun: Instant,
    fate: Fate,
    /// Whether production is still executing it.
    works: bool,
    answered: bool,
    /// Number of the push among those of the asset.
    count: u64,
}

impl Call {
    /// Whether production answers this push if its caller is still alive.
    pub(crate) fn is_answered_in_time(&self) -> bool {
        self.fate.answer.is_some()
    }

    /// Whether a caller killed at `end` cannot know the outcome: no answer was sent, and too little time has passed to
    /// wait the push out.
    pub(crate) fn is_unknown(&self, end: Instant) -> bool {
        !self.answered && end - self.begun < DEADLINE / 2
    }
}

#[derive(Default)]
struct State {
    seed: u64,
    things: BTreeMap<String, Thing>,
    calls: BTreeMap<String, Call>,
    /// Every version of every asset that was ever intended.
    intended: BTreeSet<(String, u64)>,
    /// Descriptions of violated invariants.
    broken: Vec<String>,
}

/// The state of production, shared with the tasks that answer requests. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Production(Arc<Mutex<State>>);

impl Production {
    /// Starts to answer requests on a socket in `dir`.
    pub(crate) fn serve(dir: &Path, seed: u64) -> Self {
        let this = Self::default();
        this.state().seed = seed;
        let (listener, serving) = (UnixListener::bind(dir.join(SOCKET)).unwrap(), this.clone());
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let serving = serving.clone();
                // The connection of a killed caller fails, which is no error here.
                tokio::spawn(async move { serving.answer(stream).await.unwrap_or_default() });
            }
        });
        this
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub(crate) fn things(&self) -> BTreeMap<String, Thing> {
        self.state().things.clone()
    }

    pub(crate) fn calls(&self) -> BTreeMap<String, Call> {
        self.state().calls.clone()
    }

    /// Returns the violations found since the last call.
    pub(crate) fn broken(&self) -> Vec<String> {
        std::mem::take(&mut self.state().broken)
    }

    /// Adds `versions` to those that were ever intended.
    pub(crate) fn intend(&self, versions: &BTreeMap<String, u64>) {
        let versions = versions.iter().map(|(asset, at)| (asset.clone(), *at));
        self.state().intended.extend(versions);
    }

    /// Simulates manual changes to production: some assets are changed, some removed.
    pub(crate) fn by_hand(&self, draw: &mut Draw) {
        let mut state = self.state();
        let names: Vec<String> = state.things.keys().cloned().collect();
        for _ in 0..draw.below(4).min(names.len() as u64) {
            let name = draw.of(&names);
            match draw.one_in(2) {
                true => drop(state.things.insert(name, Thing::At(u64::MAX))),
                false => drop(state.things.remove(&name)),
            }
        }
    }

    async fn answer(&self, stream: UnixStream) -> std::io::Result<()> {
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        // A line that was cut off is ignored.
        let answer = match serde_json::from_str(&line) {
            Ok(Question::Look { asset }) => {
                Some(Answer::There(self.state().things.get(&asset).copied()))
            }
            Ok(Question::Push {
                asset,
                version,
                life,
            }) => self.push(&asset, version, life, &mut stream).await,
            Err(_) => None,
        };
        if let Some(answer) = answer {
            let answer = serde_json::to_vec(&answer)?;
            stream.get_mut().write_all(&answer).await?;
        }
        Ok(())
    }

    async fn push(
        &self,
        asset: &str,
        version: u64,
        life: u64,
        caller: &mut BufReader<UnixStream>,
    ) -> Option<Answer> {
        let (count, fate) = self.begin(asset, version, life);
        let mut gone = [0];
        tokio::select! {
            () = TokioRuntime::current().sleep(fate.work) => {}
            _ = caller.read(&mut gone), if !fate.goes_on => {
                self.over(asset, count, |_, call| call.works = false);
                return None;
            }
        }
        self.over(asset, count, |thing, call| {
            (call.works, call.answered) = (false, fate.answer.is_some());
            if fate.answer != Some(End::Refused) {
                *thing = Some(Thing::At(version));
            }
        });
        match fate.answer {
            Some(End::Done) => Some(Answer::Done),
            Some(End::Refused) => Some(Answer::Refused),
            None => {
                // Wait until the caller has given up.
                let _ = caller.read(&mut gone).await;
                None
            }
        }
    }

    fn begin(&self, asset: &str, version: u64, life: u64) -> (u64, Fate) {
        let mut state = self.state();
        let before = state.calls.get(asset).cloned();
        if let Some(before) = before.as_ref().filter(|before| before.works) {
            let age = before.begun.elapsed();
            let text = format!(
                "{asset} is pushed by process {life}, {age:?} after process {} began a push of it that has not ended",
                before.life
            );
            state.broken.push(text);
        }
        if !state.intended.contains(&(asset.to_owned(), version)) {
            let text = format!("{asset} is pushed to version {version}, which was never intended");
            state.broken.push(text);
        }
        let count = before.map_or(0, |before| before.count + 1);
        let name = asset.bytes().fold(state.seed, |seed, byte| {
            seed.wrapping_mul(31).wrapping_add(byte.into())
        });
        let fate = Fate::draw(&mut Draw(name.wrapping_mul(31).wrapping_add(count)));
        let call = Call {
            life,
            begun: Instant::now(),
            fate: fate.clone(),
            works: true,
            answered: false,
            count,
        };
        state.calls.insert(asset.to_owned(), call);
        state.things.insert(asset.to_owned(), Thing::Half);
        (count, fate)
    }

    fn over(&self, asset: &str, count: u64, change: impl FnOnce(&mut Option<Thing>, &mut Call)) {
        let state = &mut *self.state();
        let mut thing = state.things.remove(asset);
        match state.calls.get_mut(asset) {
            Some(call) if call.count == count => change(&mut thing, call),
            _ => {}
        }
        if let Some(thing) = thing {
            state.things.insert(asset.to_owned(), thing);
        }
    }
}
