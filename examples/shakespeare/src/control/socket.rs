//! The socket that a control plane listens on, and the users at its two ends.
//!
//! Nothing but its file's mode and the system's own record of who is at the other end is relied on: the user of a process
//! cannot be made up.

use std::{
    fmt, fs, io,
    os::unix::{
        fs::{FileTypeExt, MetadataExt, PermissionsExt},
        net,
    },
    path::{Path, PathBuf},
};

use rustix::process::geteuid;
use tokio::net::{UnixListener, UnixStream};

/// The longest path of a unix socket, in bytes.
const LONGEST: usize = 107;

/// A user of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct User(u32);

impl User {
    /// The user that this process runs as.
    pub(super) fn own() -> Self {
        Self(geteuid().as_raw())
    }

    /// The user of the process at the other end.
    pub(super) fn of(stream: &UnixStream) -> io::Result<Self> {
        Ok(Self(stream.peer_cred()?.uid()))
    }

    /// Whether `self` may speak to a process of `owner`: that user itself, and root, who can do as it likes anyway.
    pub(super) fn may_speak_to(self, owner: Self) -> bool {
        self == owner || self.0 == 0
    }

    /// This user as the speaker of a word, with the name beside it that the request gives.
    pub(super) fn speaking(self, called: Option<&str>) -> String {
        match called {
            Some(called) => format!("{self} as {called}"),
            None => self.to_string(),
        }
    }

    fn name(self) -> Option<String> {
        let users = fs::read_to_string("/etc/passwd").ok()?;
        let wanted = self.0.to_string();
        let fields = users
            .lines()
            .map(|line| line.split(':').collect::<Vec<_>>());
        let mut named = fields.filter(|fields| fields.get(2) == Some(&&*wanted));
        Some((*named.next()?.first()?).to_owned())
    }
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} (uid {})", self.0),
            None => write!(f, "(uid {})", self.0),
        }
    }
}

/// A socket that its user alone can connect to. Its file goes when it is dropped.
#[derive(Debug)]
pub(super) struct Socket {
    path: PathBuf,
    inode: (u64, u64),
}

impl Socket {
    /// Listens at `path`. A file that a process left there when it was killed is replaced.
    ///
    /// # Errors
    /// When a process listens there already, or the path cannot be listened on: then it says what to do.
    pub(super) fn listen(path: &Path) -> io::Result<(UnixListener, Self)> {
        let path = address(path)?;
        make_way(&path)?;
        let listener = UnixListener::bind(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        let inode = inode(&path)?;
        Ok((listener, Self { path, inode }))
    }
}

impl Drop for Socket {
    /// Another process may have its socket there by now.
    fn drop(&mut self) {
        if inode(&self.path).is_ok_and(|there| there == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn inode(path: &Path) -> io::Result<(u64, u64)> {
    let file = fs::symlink_metadata(path)?;
    Ok((file.dev(), file.ino()))
}

/// Connects to the socket at `path`.
pub(super) async fn connect(path: &Path) -> io::Result<UnixStream> {
    UnixStream::connect(address(path)?).await
}

/// The path by which a socket is reached: from the working directory, if the whole one is too long.
///
/// # Errors
/// When both are too long.
pub(crate) fn address(path: &Path) -> io::Result<PathBuf> {
    let fits = |path: &Path| net::SocketAddr::from_pathname(path).is_ok();
    if fits(path) {
        return Ok(path.to_owned());
    }
    let here = std::env::current_dir()?;
    if let Some(near) = path.strip_prefix(here).ok().filter(|near| fits(near)) {
        return Ok(near.to_owned());
    }
    let long = path.as_os_str().len();
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        format!(
            "the control plane would listen at {}, a path of {long} bytes, and a socket's path has at most {LONGEST} \
             bytes: name a shorter directory with --state, or begin nearer to it",
            path.display()
        ),
    ))
}

/// Removes what a process that was killed left at `path`.
fn make_way(path: &Path) -> io::Result<()> {
    let refuse = |why: &str| {
        let why = format!("{}: {why}", path.display());
        Err(io::Error::new(io::ErrorKind::AddrInUse, why))
    };
    let Ok(there) = fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !there.file_type().is_socket() {
        return refuse("the control plane would listen there, and it is no socket: move it away");
    }
    match net::UnixStream::connect(path) {
        Ok(_) => refuse("a control plane listens there already: stop that one first"),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_a_killed_process_left_is_replaced_and_what_listens_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        // A listener that is dropped leaves its file, as a process that is killed does.
        drop(UnixListener::bind(&path).unwrap());
        let (_listener, socket) = Socket::listen(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let refused = Socket::listen(&path).unwrap_err();
        assert!(
            refused.to_string().contains("listens there already"),
            "{refused}"
        );
        let stream = connect(&path).await.unwrap();
        assert_eq!(User::of(&stream).unwrap(), User::own());
        drop(socket);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_socket_takes_along_its_own_file_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let (_first, socket) = Socket::listen(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let (_second, other) = Socket::listen(&path).unwrap();
        drop(socket);
        assert!(path.exists());
        drop(other);
        fs::write(&path, "a note").unwrap();
        let refused = Socket::listen(&path).unwrap_err();
        assert!(refused.to_string().contains("is no socket"), "{refused}");
        assert!(path.exists());
    }

    #[test]
    fn r70_a_word_is_spoken_by_the_user_of_its_process() {
        let (root, ann, ben) = (User(0), User(4_000_000_001), User(4_000_000_002));
        assert_eq!(ann.speaking(None), "(uid 4000000001)");
        assert_eq!(ann.speaking(Some("root")), "(uid 4000000001) as root");
        assert!(ann.may_speak_to(ann) && root.may_speak_to(ann));
        assert!(!ben.may_speak_to(ann) && !ben.may_speak_to(root));
    }

    #[test]
    fn a_path_that_is_too_long_is_taken_from_here_or_refused() {
        let name = "d".repeat(60);
        let here = std::env::current_dir().unwrap();
        let near = Path::new(&name).join("socket");
        let far = here.join(&name).join(&name).join("socket");
        assert!(
            address(&far)
                .unwrap_err()
                .to_string()
                .contains("at most 107 bytes")
        );
        let long = here.join(&near);
        let reached = address(&long).unwrap();
        assert!(reached == near || reached == long);
    }
}
