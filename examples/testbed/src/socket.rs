//! The socket that a control plane listens on, and the users at its two ends. Its own module, because the layout of the
//! state directory has to leave room for the socket's path.
//!
//! Access rests on two things only: the mode of the socket's file, and the user that the operating system reports for
//! the process at the other end. A process cannot forge its user.

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

/// Maximum length of a unix socket's path, in bytes.
const LONGEST: usize = 107;

/// A user of this machine, by user id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct User(u32);

impl User {
    /// Returns the user that this process runs as.
    pub fn own() -> Self {
        Self(geteuid().as_raw())
    }

    /// Returns the user of the process at the other end of `stream`.
    ///
    /// # Errors
    /// When the operating system does not tell it.
    pub fn of(stream: &UnixStream) -> io::Result<Self> {
        Ok(Self(stream.peer_cred()?.uid()))
    }

    /// Returns true if this user may talk to a process of the user `owner`: if it is the same user, or root.
    pub fn may_speak_to(self, owner: Self) -> bool {
        self == owner || self.0 == 0
    }

    /// Returns this user for the record of a command, with the name `called` that the request gives beside it.
    pub fn speaking(self, called: Option<&str>) -> String {
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

/// A listening socket with mode 0600, so that only its user and root can connect. Dropping it removes its file.
#[derive(Debug)]
pub struct Socket {
    path: PathBuf,
    inode: (u64, u64),
}

impl Socket {
    /// Listens at `path`. Replaces a socket file that was left behind by a killed process.
    ///
    /// # Errors
    /// When a process already listens there, or the path cannot be used. The message says what to do.
    pub fn listen(path: &Path) -> io::Result<(UnixListener, Self)> {
        let path = address(path)?;
        make_way(&path)?;
        let listener = UnixListener::bind(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        let inode = inode(&path)?;
        Ok((listener, Self { path, inode }))
    }
}

impl Drop for Socket {
    /// Removes the socket's file, unless another process has replaced it.
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
///
/// # Errors
/// When no process listens there, or it belongs to another user.
pub async fn connect(path: &Path) -> io::Result<UnixStream> {
    UnixStream::connect(address(path)?).await
}

/// Returns a path for a socket that is short enough: `path` itself, or else relative to the working directory.
///
/// # Errors
/// When both are too long.
pub fn address(path: &Path) -> io::Result<PathBuf> {
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
            "the path of the control socket, {}, has {long} bytes; a socket's path has at most {LONGEST} bytes: choose \
             a directory with a shorter path with --state, or start from a directory closer to it",
            path.display()
        ),
    ))
}

/// Removes the socket file that a killed process left at `path`.
fn make_way(path: &Path) -> io::Result<()> {
    let refuse = |why: &str| {
        let why = format!("{}: {why}", path.display());
        Err(io::Error::new(io::ErrorKind::AddrInUse, why))
    };
    let Ok(there) = fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !there.file_type().is_socket() {
        return refuse(
            "the control plane needs this path, but the file is not a socket: move it away",
        );
    }
    match net::UnixStream::connect(path) {
        Ok(_) => refuse("another control plane already listens here: stop it first"),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn stale_socket_is_replaced_and_live_socket_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        // A listener that is dropped leaves its file, as a process that is killed does.
        drop(UnixListener::bind(&path).unwrap());
        let (_listener, socket) = Socket::listen(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let refused = Socket::listen(&path).unwrap_err();
        assert!(
            refused.to_string().contains("already listens here"),
            "{refused}"
        );
        let stream = connect(&path).await.unwrap();
        assert_eq!(User::of(&stream).unwrap(), User::own());
        drop(socket);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn dropped_socket_removes_only_its_own_file() {
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
        assert!(refused.to_string().contains("is not a socket"), "{refused}");
        assert!(path.exists());
    }

    #[test]
    fn r70_command_is_recorded_with_the_user_of_its_process() {
        let (root, ann, ben) = (User(0), User(4_000_000_001), User(4_000_000_002));
        assert_eq!(ann.speaking(None), "(uid 4000000001)");
        assert_eq!(ann.speaking(Some("root")), "(uid 4000000001) as root");
        assert!(ann.may_speak_to(ann) && root.may_speak_to(ann));
        assert!(!ben.may_speak_to(ann) && !ben.may_speak_to(root));
    }

    #[test]
    fn long_path_is_made_relative_or_refused() {
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
