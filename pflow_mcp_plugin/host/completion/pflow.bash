# Completion of pflow for bash, written by `pflow completion bash`.

_pflow_completion() {
    local kind value program=${1/#\~/$HOME}
    COMPREPLY=()
    while IFS=$'\t' read -r kind value; do
        case $kind in
            word) COMPREPLY+=("$value") ;;
            stem) COMPREPLY+=("$value"); compopt -o nospace 2>/dev/null ;;
            file) compopt -o default 2>/dev/null ;;
            folder) compopt -o dirnames 2>/dev/null ;;
        esac
    done < <(command "$program" __complete bash "$COMP_WORDBREAKS" "${COMP_LINE:0:COMP_POINT}" 2>/dev/null </dev/null)
}

complete -F _pflow_completion @PROGRAMS@
