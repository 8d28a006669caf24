# Functions that the other scripts share. POSIX sh; to be sourced with the checkout as working directory.

say() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; }
die() { say "$*"; exit 1; }

# --- Packages of the distribution ---------------------------------------------------------------

# Run a command as root: as we are, or by a sudo that asks nothing.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}

can_be_root() {
    [ "$(id -u)" -eq 0 ] || sudo -n true 2>/dev/null
}

is_installed() {
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# need_packages NAME...: install what is missing, or say in one line what to install and fail.
# Nothing is removed, nothing recommended comes along, and no service is started.
need_packages() {
    missing=
    for package in "$@"; do is_installed "$package" || missing="$missing $package"; done
    [ -n "$missing" ] || return 0
    if ! command -v apt-get >/dev/null || ! can_be_root; then
        say "please install:$missing (as root: apt-get install --no-install-recommends$missing)"
        return 1
    fi
    say "installing$missing"
    log=$(mktemp)
    # shellcheck disable=SC2086  # a list of names
    if as_root sh -c "$install_quietly" sh $missing >"$log" 2>&1; then
        rm -f "$log"
    else
        say "cannot install$missing: $(last_error "$log")"
        rm -f "$log"
        return 1
    fi
}

# The part that runs as root. policy-rc.d is how Debian is told to start no service; a machine that
# has one keeps its own, and ours goes away however the installation ends.
install_quietly='
    policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ]; then
        trap "rm -f $policy" EXIT
        trap "exit 1" HUP INT TERM
        printf "#!/bin/sh\nexit 101\n" >"$policy" && chmod 755 "$policy" || exit 1
    fi
    export DEBIAN_FRONTEND=noninteractive
    get() { apt-get -q -y --no-install-recommends --no-remove install "$@" </dev/null; }
    get "$@" || { apt-get -q update && get "$@"; }
'

last_error() {
    grep '^E: ' "$1" | tail -n 1 | grep . || tail -n 1 "$1"
}

# --- Packages unpacked beside us, installed nowhere ------------------------------------------------

# unpack_packages TREE SUITE NAME...: the packages and all they depend on, unpacked into the folder
# TREE. SUITE is a Debian release, taken from the mirror that this machine uses already, or "own"
# for the machine's own releases. Needs no root, and apt checks the signatures as it always does.
# The function that $prune names, if any, is run in the new tree before that takes its place.
unpack_packages() (
    tree=$1 suite=$2
    shift 2
    stamp="1 $suite $*"
    [ "$(cat "$tree/.stamp" 2>/dev/null)" = "$stamp" ] && return 0
    command -v apt-get >/dev/null || die "cannot fetch $*: this needs apt-get (Debian, Ubuntu)"
    say "fetching $* into $tree"
    mkdir -p "$(dirname "$tree")" && build=$(mktemp -d "$PWD/$tree.XXXXXX") || exit 1
    trap 'rm -rf "$build"' EXIT
    trap 'exit 1' HUP INT TERM
    private_apt "$suite" || exit 1
    build_tree "$@"
    printf '%s\n' "$stamp" >"$build/tree/.stamp"
    rm -rf "$tree" && mv -T "$build/tree" "$tree"
)

# The packages by themselves: for programs that need nothing but libc.
unpack_alone() (
    alone=yes
    unpack_packages "$@"
)

build_tree() {
    quietly_apt update || die "cannot read the package lists: $(last_error "$build/log")"
    names_to_fetch "$@" >"$build/names" || die "cannot find $*: $(last_error "$build/log")"
    # shellcheck disable=SC2046  # a list of names
    (cd "$build/debs" && quietly_apt download $(cat "$build/names")) ||
        die "cannot download $*: $(last_error "$build/log")"
    for deb in "$build"/debs/*.deb; do
        dpkg-deb -x "$deb" "$build/tree" || die "cannot unpack $(basename "$deb")"
    done
    [ -z "${prune:-}" ] || (cd "$build/tree" && "$prune") || die "$* is not what was expected"
}

# An apt of our own in $build: its lists, its cache, an empty list of installed packages.
private_apt() {
    mkdir -p "$build/tree" "$build/debs" "$build/lists/partial" "$build/cache/archives/partial"
    : >"$build/status"
    cat >"$build/apt.conf" <<CONF
Dir::State "$build";
Dir::State::Lists "$build/lists";
Dir::State::status "$build/status";
Dir::Cache "$build/cache";
APT::Sandbox::User "";
APT::Get::AllowUnauthenticated "false";
Acquire::AllowInsecureRepositories "false";
Acquire::Languages "none";
CONF
    [ "$1" = own ] && return 0
    keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    [ -e "$keyring" ] || need_packages debian-archive-keyring || return 1
    mirror=$(debian_mirror)
    [ -n "$mirror" ] || die "cannot tell this machine's Debian mirror from its apt sources"
    echo "deb [signed-by=$keyring] $mirror $1 main" >"$build/sources.list"
    cat >>"$build/apt.conf" <<CONF
APT::Update::Error-Mode "any";
Dir::Etc::sourcelist "$build/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
CONF
}

# The mirror of this machine's own release, or else of its first source that is not for security.
debian_mirror() {
    # shellcheck disable=SC2016  # apt's own variables
    apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
        awk -v own="$(os_release VERSION_CODENAME)" '
            $3 != "main" || $1 ~ /security/ { next }
            $2 == own && !exact { exact = $1 }
            !any { any = $1 }
            END { print exact ? exact : any }'
}

os_release() {
    (. /etc/os-release && eval "printf '%s\n' \"\${$1:-}\"")
}

quietly_apt() {
    apt-get -q -c "$build/apt.conf" "$@" >>"$build/log" 2>&1
}

# The names of the packages and, unless they come alone, of what they need; the parts of Perl are
# for scripts that we do not run.
names_to_fetch() {
    if [ -n "${alone:-}" ]; then echo "$@" && return; fi
    apt-get -q -s -c "$build/apt.conf" --no-install-recommends install "$@" 2>>"$build/log" |
        awk '$1 == "Inst" { print $2 }' |
        grep -vE '^(perl|libperl|libgdbm|gcc-.*-base|libc-gconv)' | grep .
}

# --- Python -----------------------------------------------------------------------------------------

# The first Python that is new enough; PYTHON says otherwise.
find_python() {
    for python in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
        if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$python"
            return 0
        fi
    done
    return 1
}

# Where no Python is new enough: one of the distribution's, if it has such a one.
install_python() {
    command -v apt-cache >/dev/null && can_be_root || return 1
    ls /var/lib/apt/lists/*Packages* >/dev/null 2>&1 || as_root apt-get -q update >/dev/null 2>&1
    for version in python3.14 python3.13 python3.12 python3.11; do
        if apt-cache show "$version" >/dev/null 2>&1; then
            need_packages "$version" "$version-venv"
            return
        fi
    done
    return 1
}

# venv_with EXTRA: .venv holds the app, editable, with that extra of pyproject.toml ("" for none).
# Skipped when nothing has changed since the last time.
venv_with() {
    wanted="$(cksum <pyproject.toml) $PWD"
    for extra in "$1" dev; do
        [ "$(cat ".venv/.with-$extra" 2>/dev/null)" = "$wanted" ] && return 0
    done
    if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then make_venv; fi
    .venv/bin/python -m pip install --quiet --disable-pip-version-check \
        --editable ".${1:+[$1]}" || die "pip could not install the app into .venv"
    echo "$wanted" >".venv/.with-$1"
}

make_venv() {
    python=$(find_python) || { install_python && python=$(find_python); } ||
        die "Python 3.11 or newer is needed, with its venv module, and none is on the PATH"
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        need_packages "$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')" ||
            exit 1
    fi
    say "making .venv with $python"
    "$python" -m venv --clear .venv || die "cannot make .venv with $python"
}
