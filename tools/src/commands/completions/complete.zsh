#compdef relay-opt
# Completion of relay-opt in zsh: asks relay-opt itself.
_relay-opt() {
    local kind word
    local -a found
    {{ask}} -- "${(j: :)words[1,CURRENT-1]} $PREFIX" 2> /dev/null | while read -r kind word; do
        case $kind in
            files) _files ;;
            word) found+=("$word") ;;
        esac
    done
    compadd -Q -S '' -- $found
}
compdef _relay-opt relay-opt
