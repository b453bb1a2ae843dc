/* Makes fsync and fdatasync fail with EIO for files whose name ends with the content of the file that FAIL_FSYNC
   names, for as long as that file is there, and writes fail with ENOSPC likewise with FAIL_WRITE. Appends a line with the
   path of the file to the file that TRACE_FSYNC names: `sync` for a sync, `write` for a write. To be preloaded. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static ssize_t path_of(int fd, char *path, size_t room)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    return readlink(link, path, room);
}

static int fails(int fd, const char *variable)
{
    const char *control = getenv(variable);
    char ending[256], path[4096];
    ssize_t n, m;
    int file = control ? open(control, O_RDONLY) : -1;
    if (file < 0)
        return 0;
    n = read(file, ending, sizeof ending);
    close(file);
    m = path_of(fd, path, sizeof path);
    return n > 0 && m >= n && memcmp(path + m - n, ending, n) == 0;
}

static void trace(int fd, const char *what)
{
    const char *trace = getenv("TRACE_FSYNC");
    char path[4096], line[4200];
    ssize_t m = path_of(fd, path, sizeof path);
    int n, file = trace ? open(trace, O_WRONLY | O_APPEND | O_CREAT, 0600) : -1;
    if (file < 0)
        return;
    n = snprintf(line, sizeof line, "%s %.*s\n", what, m < 0 ? 0 : (int)m, path);
    if (write(file, line, n) != n)
        abort();
    close(file);
}

static int synced(int fd, const char *name)
{
    if (fails(fd, "FAIL_FSYNC")) {
        errno = EIO;
        return -1;
    }
    trace(fd, "sync");
    return ((int (*)(int))dlsym(RTLD_NEXT, name))(fd);
}

int fsync(int fd)
{
    return synced(fd, "fsync");
}

int fdatasync(int fd)
{
    return synced(fd, "fdatasync");
}

static ssize_t written(int fd, const void *bytes, size_t n, off64_t at, const char *name)
{
    if (fails(fd, "FAIL_WRITE")) {
        errno = ENOSPC;
        return -1;
    }
    trace(fd, "write");
    return ((ssize_t (*)(int, const void *, size_t, off64_t))dlsym(RTLD_NEXT, name))(fd, bytes, n, at);
}

ssize_t pwrite(int fd, const void *bytes, size_t n, off_t at)
{
    return written(fd, bytes, n, at, "pwrite64");
}

ssize_t pwrite64(int fd, const void *bytes, size_t n, off64_t at)
{
    return written(fd, bytes, n, at, "pwrite64");
}
