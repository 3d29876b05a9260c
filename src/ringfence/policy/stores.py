"""Where secrets are kept, in the system and in a home: keys, tokens, passwords, browsers, histories. Data only."""

from .tables import rows

SYSTEM_SECRETS = rows("""
    /etc/shadow                          password hashes
    /etc/shadow-                         password hashes
    /etc/gshadow                         password hashes
    /etc/gshadow-                        password hashes
    /etc/security/opasswd                password hashes
    /etc/sudoers                         who may become root
    /etc/sudoers.d                       who may become root
    /etc/ssl/private                     private keys
    /etc/pki/tls/private                 private keys
    /etc/pki/consumer                    private keys
    /etc/pki/entitlement                 private keys
    /etc/letsencrypt                     private keys
    /etc/ssh/ssh_host_rsa_key            host keys
    /etc/ssh/ssh_host_dsa_key            host keys
    /etc/ssh/ssh_host_ecdsa_key          host keys
    /etc/ssh/ssh_host_ed25519_key        host keys
    /etc/krb5.keytab                     Kerberos keys
    /etc/luks                            disk keys
    /etc/cryptsetup-keys.d               disk keys
    /etc/wireguard                       VPN keys
    /etc/openvpn                         VPN keys
    /etc/ipsec.secrets                   VPN keys
    /etc/ipsec.d/private                 VPN keys
    /etc/swanctl/private                 VPN keys
    /etc/ppp/chap-secrets                dial-in passwords
    /etc/ppp/pap-secrets                 dial-in passwords
    /etc/NetworkManager/system-connections Wi-Fi passwords
    /etc/netplan                         Wi-Fi passwords
    /etc/wpa_supplicant                  Wi-Fi passwords
    /etc/kubernetes                      cluster keys
    /etc/rancher                         cluster keys
    /etc/vault.d                         service tokens
    /etc/consul.d                        service tokens
    /etc/nomad.d                         service tokens
    /etc/sssd                            directory passwords
    /etc/apt/auth.conf                   repository passwords
    /etc/apt/auth.conf.d                 repository passwords
    /etc/boto.cfg                        cloud keys
    /etc/postfix/sasl_passwd             mail passwords
    /etc/exim4/passwd.client             mail passwords
    /etc/msmtprc                         mail passwords
    /etc/mysql/debian.cnf                database passwords
    /etc/gitlab-runner                   build secrets
    /etc/cloudflared                     tunnel keys
    /etc/davfs2                          passwords for hosts
    /etc/ceph                            cluster keys
    /etc/munge                           cluster keys
    /var/cache/debconf/passwords.dat     passwords of packages
    /var/lib/docker                      other containers
    /var/lib/containerd                  other containers
    /var/lib/containers                  other containers
    /var/lib/lxc                         other containers
    /var/lib/lxd                         other containers
    /var/lib/incus                       other containers
    /var/lib/machines                    other containers
    /var/lib/libvirt                     other machines
    /var/lib/kubelet                     cluster keys
    /var/lib/rancher                     cluster keys
    /var/lib/etcd                        cluster keys
    /var/lib/cloud                       instance secrets
    /var/lib/waagent                     instance secrets
    /var/lib/amazon                      instance secrets
    /var/lib/private                     services' state
    /var/lib/systemd/coredump            memory of crashed programs
    /var/lib/systemd/credential.secret   service credentials
    /var/lib/NetworkManager              network secrets
    /var/lib/iwd                         Wi-Fi passwords
    /var/lib/bluetooth                   pairing keys
    /var/lib/samba                       password hashes
    /var/lib/sss                         cached passwords
    /sys/kernel/debug                    what the kernel is asked and told
    /sys/kernel/tracing                  what every process of the machine does
    /sys/fs/pstore                       the kernel's last words
    /sys/class/zram-control/hot_add      to read it makes a device
    /var/lib/tailscale                   VPN keys
    /var/lib/postgresql                  databases
    /var/lib/mysql                       databases
    /var/lib/mongodb                     databases
    /var/lib/redis                       databases
    /var/lib/jenkins                     build secrets
    /var/lib/gitlab-runner               build secrets
    /var/lib/vault                       service tokens
""")

SECRETS = rows("""
    .ssh                                 ssh keys
    .gnupg                               PGP keys
    .pki                                 certificates
    .password-store                      passwords
    .local/share/keyrings                passwords
    .local/share/kwalletd                passwords
    .local/share/gopass                  passwords
    .local/share/pass                    passwords
    .config/keepassxc                    passwords
    .config/Bitwarden                    passwords
    .config/1Password                    passwords
    .config/op                           passwords
    .config/sops                         age keys
    .config/age                          age keys
    .age                                 age keys
    .netrc                               passwords for hosts
    .authinfo                            passwords for hosts
    .authinfo.gpg                        passwords for hosts
    .subversion/auth                     passwords for hosts
    .git-credentials                     git passwords
    .config/git/credentials              git passwords
    .cache/git/credential                git's credential socket
    .config/gh                           GitHub token
    .config/hub                          GitHub token
    .config/github-copilot               GitHub token
    .config/glab-cli                     GitLab token
    .config/tea                          Gitea token
    .aws                                 cloud keys
    .azure                               cloud keys
    .config/gcloud                       cloud keys
    .config/doctl                        cloud keys
    .config/hcloud                       cloud keys
    .config/linode-cli                   cloud keys
    .config/scw                          cloud keys
    .config/flyctl                       cloud keys
    .fly                                 cloud keys
    .config/.wrangler                    cloud keys
    .wrangler                            cloud keys
    .cloudflared                         cloud keys
    .config/heroku                       cloud keys
    .config/netlify                      cloud keys
    .local/share/com.vercel.cli          cloud keys
    .vercel                              cloud keys
    .netlify                             cloud keys
    .railway                             cloud keys
    .oci                                 cloud keys
    .aliyun                              cloud keys
    .bluemix                             cloud keys
    .config/openstack                    cloud keys
    .boto                                cloud keys
    .s3cfg                               cloud keys
    .mc                                  cloud keys
    .config/rclone                       cloud keys
    .config/restic                       backup keys
    .config/borg                         backup keys
    .kube                                cluster keys
    .minikube                            cluster keys
    .config/k9s                          cluster keys
    .config/helm                         chart repository passwords
    .config/argocd                       cluster keys
    .docker                              registry passwords
    .dockercfg                           registry passwords
    .config/containers                   registry passwords
    .local/share/containers              other containers
    .terraform.d                         Terraform tokens
    .terraformrc                         Terraform tokens
    .pulumi                              Pulumi tokens
    .vault-token                         Vault token
    .config/vault                        Vault token
    .ansible                             vault passwords
    .vault_pass                          vault passwords
    .chef                                Chef keys
    .vagrant.d                           machine keys
    .npmrc                               npm token
    .npm/_logs                           npm's logs hold arguments
    .yarnrc                              npm token
    .yarnrc.yml                          npm token
    .config/pnpm                         npm token
    .bunfig.toml                         npm token
    .pypirc                              PyPI token
    .pip                                 index passwords
    .config/pip                          index passwords
    .config/uv                           index passwords
    .local/share/uv/credentials          index passwords
    .config/pypoetry                     index passwords
    .config/pdm                          index passwords
    .config/hatch                        index passwords
    .local/share/hatch/pypi              PyPI token
    .condarc                             channel passwords
    .continuum                           channel passwords
    .rattler                             channel passwords
    .rye/credentials                     PyPI token
    .julia/servers                       package server token
    .stack/upload                        Hackage password
    .cargo/credentials                   crates.io token
    .cargo/credentials.toml              crates.io token
    .gem/credentials                     RubyGems token
    .local/share/gem/credentials         RubyGems token
    .bundle/config                       RubyGems token
    .m2/settings.xml                     Maven passwords
    .m2/settings-security.xml            Maven passwords
    .gradle/gradle.properties            Gradle passwords
    .gradle/init.gradle                  Gradle passwords
    .gradle/init.d                       Gradle passwords
    .ivy2/.credentials                   Ivy passwords
    .sbt/.credentials                    sbt passwords
    .sbt/credentials                     sbt passwords
    .sbt/1.0/credentials.sbt             sbt passwords
    .nuget/NuGet                         NuGet passwords
    .config/NuGet                        NuGet passwords
    .dotnet/corefx/cryptography          private keys
    .aspnet                              private keys
    .microsoft/usersecrets               .NET user secrets
    .composer/auth.json                  Composer passwords
    .config/composer                     Composer passwords
    .hex/hex.config                      Hex token
    .pub-cache/credentials.json          pub token
    .config/dart                         pub token
    .cabal/config                        Hackage password
    .conan/.conan.db                     Conan passwords
    .conan2/credentials.json             Conan passwords
    .cpanreporter                        CPAN password
    .pause                               CPAN password
    .android                             signing keys
    .foundry/keystores                   wallets
    .wasmer/wasmer.toml                  Wasmer token
    .bitcoin                             wallets
    .ethereum                            wallets
    .config/solana                       wallets
    .electrum                            wallets
    .near-credentials                    wallets
    .pgpass                              database passwords
    .pg_service.conf                     database passwords
    .my.cnf                              database passwords
    .mylogin.cnf                         database passwords
    .mongorc.js                          database passwords
    .mongodb                             database passwords
    .snowflake                           database passwords
    .snowsql                             database passwords
    .config/snowflake                    database passwords
    .databricks                          database passwords
    .databrickscfg                       database passwords
    .dbt                                 database passwords
    .local/share/DBeaverData             database passwords
    .kaggle                              Kaggle token
    .config/kaggle                       Kaggle token
    .huggingface                         Hugging Face token
    .cache/huggingface/token             Hugging Face token
    .cache/huggingface/stored_tokens     Hugging Face token
    .config/wandb                        W&B token
    .config/ngrok                        ngrok token
    .ngrok2                              ngrok token
    .config/sentry                       Sentry token
    .sentryclirc                         Sentry token
    .config/stripe                       Stripe key
    .config/configstore                  tokens of many command line tools
    .claude.json                         agent credentials
    .claude/.credentials.json            agent credentials
    .claude/history.jsonl                what was said to an agent
    .claude/projects                     what was said to an agent
    .codex/auth.json                     agent credentials
    .codex/history.jsonl                 what was said to an agent
    .codex/sessions                      what was said to an agent
    .gemini/oauth_creds.json             agent credentials
    .gemini/google_accounts.json         agent credentials
    .gemini/.env                         agent credentials
    .cursor/auth.json                    agent credentials
    .config/cursor                       agent credentials
    .copilot                             agent credentials
    .local/share/opencode/auth.json      agent credentials
    .pi/agent/auth.json                  agent credentials
    .config/goose                        agent credentials
    .config/io.datasette.llm             agent credentials
    .continue                            agent credentials
    .openai                              agent credentials
    .config/openai                       agent credentials
    .config/anthropic                    agent credentials
    .anthropic                           agent credentials
    .aider.conf.yml                      agent credentials
    .mozilla                             browser
    .config/google-chrome                browser
    .config/google-chrome-beta           browser
    .config/chromium                     browser
    .config/BraveSoftware                browser
    .config/microsoft-edge               browser
    .config/vivaldi                      browser
    .config/opera                        browser
    .librewolf                           browser
    .zen                                 browser
    .waterfox                            browser
    .cache/mozilla                       browser
    .cache/google-chrome                 browser
    .cache/chromium                      browser
    .cache/BraveSoftware                 browser
    .cache/ms-edge                       browser
    .var/app                             Flatpak programs, browsers among them
    snap                                 snap programs, browsers among them
    .thunderbird                         mail
    .config/evolution                    mail
    .local/share/evolution               mail
    .config/neomutt                      mail
    .muttrc                              mail
    .mutt                                mail
    .msmtprc                             mail
    .config/msmtp                        mail
    .fetchmailrc                         mail
    .mbsyncrc                            mail
    .offlineimaprc                       mail
    .config/Signal                       messages
    .config/Slack                        messages
    .config/discord                      messages
    .config/Element                      messages
    .local/share/TelegramDesktop         messages
    .config/Code                         editor's stored secrets
    .config/Cursor                       editor's stored secrets
    .config/VSCodium                     editor's stored secrets
    .config/JetBrains                    editor's stored secrets
    .vscode-server                       editor's stored secrets
    .config/filezilla                    passwords for hosts
    .config/remmina                      passwords for hosts
    .local/share/remmina                 passwords for hosts
    .putty                               ssh keys
    .config/pulse/cookie                 sound server cookie
    .Xauthority                          display cookie
    .ICEauthority                        session cookie
    .rhosts                              who may log in
    .erlang.cookie                       who may command Erlang's nodes
    .local/share/jupyter/runtime         tokens of notebooks
    .krb5                                Kerberos keys
    .k5login                             who may log in
    .config/syncthing                    private keys
    .local/state/syncthing               private keys
    .config/tailscale                    VPN keys
    .config/wireguard                    VPN keys
    .smbcredentials                      passwords for hosts
    .davfs2                              passwords for hosts
    .curlrc                              passwords for hosts
    .wgetrc                              passwords for hosts
    .env                                 secrets of a shell
    .envrc                               secrets of a shell
    .config/fish/fish_variables          secrets of a shell
    .secrets                             secrets by name
    .bash_history                        history
    .zsh_history                         history
    .zhistory                            history
    .sh_history                          history
    .ash_history                         history
    .histfile                            history
    .history                             history
    .local/share/fish                    history
    .local/share/atuin                   history
    .local/state/bash                    history
    .local/state/zsh                     history
    .python_history                      history
    .ipython/profile_default/history.sqlite history
    .node_repl_history                   history
    .irb_history                         history
    .pry_history                         history
    .psql_history                        history
    .mysql_history                       history
    .sqlite_history                      history
    .rediscli_history                    history
    .dbshell                             history
    .mongosh                             history
    .lesshst                             history
    .viminfo                             history
    .local/share/nvim/shada              history
    .local/share/recently-used.xbel      history
""")
"""Stores of secrets in a home: closed even under a wider allowRead, until named themselves."""
