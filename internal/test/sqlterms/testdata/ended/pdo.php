<?php
function attempt(bool $pause): void
{
    $dsn = sprintf('pgsql:host=%s;port=%s;dbname=%s;user=%s', getenv('PGHOST'), getenv('PGPORT'), getenv('PGDATABASE'), getenv('PGUSER'));
    $db = new PDO($dsn, null, null, [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION, PDO::ATTR_EMULATE_PREPARES => true]);
    if (getenv('STATEMENT')) {
        $db->exec(getenv('STATEMENT'));
        return;
    }
    $db->beginTransaction();
    $db->prepare('select ringfence.enter(?)')->execute([getenv('PASS')]);
    if ($pause) {
        echo "inside\n";
        fgets(STDIN);
    }
    $db->exec("insert into ledger values ('late')");
    $db->commit();
}

foreach ([true, false] as $pause) {
    try {
        attempt($pause);
        echo "STALE\n";
    } catch (PDOException $e) {
        echo $e->getCode(), ' ', get_class($e), ': ', strtok($e->getMessage(), "\n"), "\n";
    }
}
