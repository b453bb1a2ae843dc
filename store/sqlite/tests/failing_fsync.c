/* Makes fsync and fdatasync fail with EIO for files whose name ends with the content of the file that FAIL_FSYNC
   names, for as long as that file is there. To be preloaded. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fails(int fd)
{
    const char *control = getenv("FAIL_FSYNC");
    char ending[256], link[64], path[4096];
    ssize_t n, m;
    int file = control ? open(control, O_RDONLY) : -1;
    if (file < 0)
        return 0;
    n = read(file, ending, sizeof ending);
    close(file);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    m = readlink(link, path, sizeof path);
    return n > 0 && m >= n && memcmp(path + m - n, ending, n) == 0;
}

int fsync(int fd)
{
    if (fails(fd)) {
        errno = EIO;
        return -1;
    }
    return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd);
}

int fdatasync(int fd)
{
    if (fails(fd)) {
        errno = EIO;
        return -1;
    }
    return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(fd);
}
