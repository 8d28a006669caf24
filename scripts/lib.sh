# Functions that the other scripts share. POSIX sh; to be sourced with the checkout as working directory.

say() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; }
die() { say "$*"; exit 1; }
trap 'exit 130' HUP INT TERM
trap clean_up EXIT

# However the script ends, no log stays, and no .venv that we made and did not bring to its end.
log='' unfinished_venv=''
clean_up() {
    [ -z "$log" ] || rm -f "$log"
    [ -z "$unfinished_venv" ] || rm -rf .venv
}

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

# has_candidate NAME: apt knows a package to install; a purely virtual one is none. (Where there is no
# such name, apt takes it for a regular expression.)
has_candidate() {
    LC_ALL=C apt-cache policy "$1" 2>/dev/null | awk -v name="$1:" '
        /^[^ ]/ { own = $0 == name }
        own && $1 == "Candidate:" && $2 != "(none)" { found = 1 }
        END { exit !found }'
}

# need_packages NAME...: install what is missing, or say in one line what to do and fail.
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
    new_log || return 1
    status=0
    # shellcheck disable=SC2086  # a list of names
    interruptible $(sudo_if_needed) sh -c "$install_quietly" sh $missing || status=$?
    [ "$status" -eq 0 ] || say "cannot install$missing: $(last_error "$log")"
    rm -f "$log"
    return "$status"
}

sudo_if_needed() {
    [ "$(id -u)" -eq 0 ] || echo sudo -n
}

# The part that runs as root, in a session of its own: the terminal's Ctrl-C does not reach it. What
# is downloaded can be interrupted; what dpkg has begun is brought to its end. policy-rc.d is how
# Debian is told to start no service; a machine that has one keeps its own, and ours goes away.
install_quietly='
    policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ]; then
        trap "rm -f $policy" EXIT
        trap "exit 1" HUP INT TERM
        printf "#!/bin/sh\nexit 101\n" >"$policy" && chmod 755 "$policy" || exit 1
    fi
    export DEBIAN_FRONTEND=noninteractive LC_ALL=C
    options="-q -y --no-install-recommends --no-remove -o DPkg::Lock::Timeout=60"
    download() {
        apt-get $options --download-only install "$@" &
        child=$!
        trap "kill $child; exit 1" HUP INT TERM
        wait $child
    }
    update() {
        apt-get -q update &
        child=$!
        trap "kill $child; exit 1" HUP INT TERM
        wait $child
    }
    kilobytes_needed() {
        apt-get -q --assume-no --no-install-recommends install "$@" | awk "
            /^After this operation, .* of additional/ { size = \$4 * (\$5 ~ /^k/ ? 1 : 1000) }
            END { print int(1.5 * size) }" # with what packages compile, and the blocks of small files
    }
    download "$@" || { update && download "$@"; } || exit
    [ "$(kilobytes_needed "$@")" -lt "$(df -k --output=avail /usr | tail -n 1)" ] ||
        { echo "No space left on device (/usr)" && exit 1; }
    trap "" HUP INT TERM
    apt-get $options --no-download install "$@"
'

new_log() {
    log=$(mktemp) && return
    say "cannot write in ${TMPDIR:-/tmp}: free some space there, or set TMPDIR"
    return 1
}

# interruptible COMMAND...: run it to its end, in a session of its own; what it prints goes to $log.
# Asked to end, we ask it and all its children once, wait for them, and end. What outlives it, as a
# process that it has started just then, is asked until it ends.
interruptible() {
    interrupted='' asked='' child='' status=0
    trap 'interrupted=yes; say "ending …"; ask_children_to_end || :' HUP INT TERM
    setsid "$@" </dev/null >"$log" 2>&1 &
    child=$!
    wait "$child" 2>/dev/null || status=$? # else the shell says "Terminated"
    while [ -n "$interrupted" ] && { signal_children 0 || kill -0 "$child" 2>/dev/null; }; do
        if ask_children_to_end; then
            wait "$child" 2>/dev/null || :
            kill -0 "$child" 2>/dev/null || signal_children TERM || :
        fi
        sleep 0.1
    done
    trap 'exit 130' HUP INT TERM
    [ -z "$interrupted" ] || exit 130
    return "$status"
}

# False as long as they have no session yet: a moment after the start.
ask_children_to_end() {
    [ -n "$asked" ] || { signal_children TERM && asked=yes; }
}

signal_children() {
    kill -s "$1" -- "-$child" 2>/dev/null || as_root sh -c "kill -s $1 -- -$child" 2>/dev/null
}

# last_error LOG: why apt or pip failed, in one line, with what to do where that is known.
last_error() {
    text=$(cat "$1")
    for kind in full untrusted unreachable; do
        eval "pattern=\$${kind}_pattern remedy=\$${kind}_remedy"
        # shellcheck disable=SC2154  # those two
        reason=$(printf '%s\n' "$text" | grep -oE "$pattern" | head -n 1)
        [ -z "$reason" ] || { echo "$reason: $remedy" && return; }
    done
    printf '%s\n' "$text" | grep -E '^ *(E|ERROR|error): ' | tail -n 1 | grep . ||
        printf '%s\n' "$text" | tail -n 1
}

full_pattern="[Nn]o space left on device( [(][^)]*[)])?|You don.t have enough free space in [^ ]*[^ .]"
full_remedy='free some space and run this again'
untrusted_pattern='certificate verify failed[^(]*[^( ]'
untrusted_remedy="where is the certificate of this network's authority? PIP_CERT names its file to pip"
unreachable_pattern="Temporary failure resolving '[^']*'|Temporary failure in name resolution|\
Could not resolve '[^']*'|Network is unreachable|Connection refused|[Cc]onnection timed out|\
Cannot initiate the connection to [^ ]*|Could not connect to [^ ]*"
unreachable_remedy='is there a network, and does it need a proxy?'

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
    command -v apt-cache >/dev/null || die "$no_python: install one, or name one in PYTHON"
    have_lists || ! can_be_root || update_lists || exit 1
    for version in python3.14 python3.13 python3.12 python3.11; do
        if has_candidate "$version" && has_candidate "$version-venv"; then
            need_packages "$version" "$version-venv" || exit 1
            return
        fi
    done
    problem=$(LC_ALL=C apt-cache policy 2>&1 >/dev/null) ||
        die "cannot read the package lists: $(printf '%s\n' "$problem" | last_error -)"
    have_lists || die "$no_python: as root, apt-get update && apt-get install python3 python3-venv"
    die "$no_python, nor has $(os_release PRETTY_NAME): take a newer release, or name one in PYTHON"
}

no_python="Python 3.11 or newer is needed, with its venv module, and none is on the PATH"

have_lists() {
    ls /var/lib/apt/lists/*Packages* >/dev/null 2>&1
}

update_lists() {
    say "reading the package lists"
    new_log || return 1
    # shellcheck disable=SC2046  # no word or two
    interruptible $(sudo_if_needed) env LC_ALL=C apt-get -q update || :
    have_lists || say "cannot read the package lists: $(last_error "$log")"
    rm -f "$log"
    have_lists
}

# venv_with EXTRA: .venv holds the app, editable, with the libraries of requirements.lock ("") or of
# requirements-dev.lock ("dev").
# Skipped when nothing has changed since the last time. One that was not brought to its end is marked
# and made anew.
venv_with() {
    wanted="$(cat pyproject.toml requirements*.lock | cksum) $PWD"
    for extra in "$1" dev; do
        [ "$(cat ".venv/.with-$extra" 2>/dev/null)" = "$wanted" ] && return 0
    done
    if [ -e .venv/.unfinished ] || ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
        make_venv
    fi
    say "installing mysql-headroom and its libraries into .venv"
    fill_venv "$1"
    echo "$wanted" >".venv/.with-$1"
    unfinished_venv=
}

make_venv() {
    python=$(find_python) || { install_python && python=$(find_python); } || die "$no_python"
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        need_packages "$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')" ||
            exit 1
    fi
    say "making .venv with $python"
    unfinished_venv=yes
    rm -rf .venv && mkdir .venv && : >.venv/.unfinished || die "cannot make .venv in $PWD"
    quietly_in_venv "$python" -m venv .venv || die "cannot make .venv with $python: $reason"
}

# The libraries as they are pinned, by hash, then the app. What pip unpacks on the way lies in .venv
# too: /tmp may be small, and nothing stays there. Nothing is compiled beforehand: that takes half of
# the time, for a thousand modules of which a run imports few.
fill_venv() {
    : >.venv/.unfinished && mkdir -p .venv/.tmp
    pip_in_venv --require-hashes --requirement "requirements${1:+-$1}.lock"
    pip_in_venv --editable .
    rm -rf .venv/.tmp .venv/.unfinished
}

pip_in_venv() {
    quietly_in_venv env TMPDIR="$PWD/.venv/.tmp" .venv/bin/python -m pip install --quiet \
        --disable-pip-version-check --no-compile --no-deps "$@" ||
        die "pip cannot install the libraries into .venv: $reason"
}

quietly_in_venv() {
    new_log || exit 1
    status=0
    interruptible "$@" || status=$?
    reason=$([ "$status" -eq 0 ] || last_error "$log")
    rm -f "$log"
    return "$status"
}
