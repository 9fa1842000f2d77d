# Completion of relay-opt in bash: asks relay-opt itself.
_relay_opt() {
    local line=${COMP_LINE:0:COMP_POINT} current=${COMP_WORDS[COMP_CWORD]} kind word
    case $current in =|:) current= ;; esac
    # bash splits words at `=` and `:`, and takes what comes behind the last of them.
    local whole=${line##*[[:space:]]}
    whole=${whole#[\"\']}
    current=${current#[\"\']}
    local head=${whole%"$current"}
    COMPREPLY=()
    while read -r kind word; do
        case $kind in
            files) compopt -o default -o filenames 2> /dev/null ;;
            word) COMPREPLY+=("${word#"$head"}") ;;
        esac
    done < <({{ask}} -- "$line" 2> /dev/null)
    # A pipeline goes on behind a pass.
    [[ $line =~ --pass[[:blank:]=][^[:blank:]]*$ ]] && compopt -o nospace 2> /dev/null
    return 0
}
complete -F _relay_opt relay-opt
