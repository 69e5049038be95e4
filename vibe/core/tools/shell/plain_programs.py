"""Programs whose words are known not to name programs that they run: a word among them is no wrapped command."""

from __future__ import annotations

from vibe.core.tools.shell.read_only_commands import READERS

FILES = """
chgrp chmod chown cp dd fallocate install link ln mkdir mkfifo mknod mktemp mv rm rmdir shred sync tee touch
truncate unlink rename rsync scp sftp split csplit patch tar zip unzip gzip gunzip bzip2 bunzip2 xz unxz zstd 7z ar
cpio open xdg-open code dos2unix unix2dos iconv pr look ptx ldd nm objdump readelf size strip zgrep zcat bzcat xzcat
ag ack locate updatedb whereis apropos man info whatis tldr cloc tokei scc delta trash exa eza lsd dust ncdu procs
sd choose mdcat glow pandoc convert magick ffmpeg
"""
BUILDS = """
apk apt apt-cache apt-get apt-mark aptitude brew choco dnf dpkg emerge flatpak nix-env pacman port rpm snap winget
yay yum zypper conan vcpkg pip pip2 pip3 pipx poetry pdm uv uvx hatch rye pixi conda mamba pyenv rbenv nvm volta fnm
asdf mise npm npx pnpm yarn bower lerna nx turbo gem bundle bundler rake rails composer cargo rustup rustc go gofmt
mvn gradle gradlew ant sbt lein mix rebar3 stack cabal dotnet nuget msbuild swift xcodebuild pod flutter dart bazel
buck cmake ctest meson ninja make gmake just task scons gcc g++ cc c++ clang clang++ clang-format clang-tidy ld
javac java jar kotlinc tsc esbuild vite webpack rollup parcel swc babel
"""
CHECKERS = """
alembic bandit biome black coverage cypress django-admin eslint flake8 flask gofumpt golangci-lint hadolint isort
jest karma mocha mypy nox phpunit playwright pre-commit prettier pylint pyright pytest rspec rubocop ruff semgrep
shellcheck shfmt sphinx-build mkdocs stylelint tox vitest yamllint py.test uvicorn gunicorn celery manage.py locust
"""
SERVICES = """
git gh glab hub hg svn jj git-lfs gitk docker docker-compose podman nerdctl buildah skopeo kubectl oc helm kustomize
kind minikube k3d k9s terraform tofu terragrunt packer vault consul nomad pulumi ansible-playbook aws az gcloud
gsutil doctl heroku fly flyctl vercel netlify wrangler firebase supabase curl wget http https httpie ssh ssh-keygen
ssh-add ssh-copy-id ping dig nslookup host nc ip ifconfig netstat ss lsof traceroute whois openssl gpg age redis-cli
mongo mongosh pg_dump pg_restore createdb dropdb mysqldump sqlite3 psql mysql duckdb systemctl journalctl service
loginctl crontab useradd usermod groupadd passwd mount umount kill killall pkill pgrep renice dmesg sysctl modprobe
lsmod lsblk blkid fdisk iostat vmstat who w last notify-send say pbcopy xclip wl-copy yq dasel xmllint protoc buf
openapi-generator jupyter streamlit vibe
"""
SHELL_WORDS = """
[ [[ cd pushd popd dirs export local declare typeset readonly unset set shift return exit read let test wait history
hash alias unalias shopt umask ulimit help mapfile readarray complete compgen compopt getopts bind jobs fg bg disown
logout enable caller break continue : . source then do done fi else esac
"""
PLAIN_PROGRAMS = frozenset({
    *(entry.split()[0] for entry in READERS),
    *FILES.split(),
    *BUILDS.split(),
    *CHECKERS.split(),
    *SERVICES.split(),
    *SHELL_WORDS.split(),
})
"""By name. A few of them do run others by certain words; those are told in ``wrappers``."""
